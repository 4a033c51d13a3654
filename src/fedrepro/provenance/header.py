"""What a plugin declares, read from its source without importing it.

Parsing the workflow must not import torch or matplotlib, so a plugin's constants must be literals and its
``Params`` may use only the standard library, ``annotated_types`` and ``fedrepro.core.spec``.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Any

from fedrepro.core.registry import PACKAGE_ROOT, module_name
from fedrepro.core.spec import Choice, build
from fedrepro.errors import FedreproError
from fedrepro.provenance.source import statements

IMPORTABLE = ("annotated_types", "collections.abc", "dataclasses", "fedrepro.core.spec", "typing")


class Header:
    """The constants and the ``Params`` class of one plugin file."""

    def __init__(self, kind: str, name: str):
        relative = module_name(kind, name).split(".")[1:]
        self.path = PACKAGE_ROOT.joinpath(*relative).with_suffix(".py")
        self._params: type | None = None
        self._statements = statements(self.path)
        self._assigned = {
            target.id: node.value
            for node in self._statements
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def constant(self, name: str, default: Any = None) -> Any:
        """Value of a module-level constant, or the default."""
        if name not in self._assigned:
            return default
        try:
            return ast.literal_eval(self._assigned[name])
        except ValueError as error:
            raise FedreproError(
                f"{self.path}: {name} must be a literal, it is read without importing the file"
            ) from error

    def defines(self, function: str) -> bool:
        """Whether the plugin has this function."""
        return any(isinstance(node, ast.FunctionDef) and node.name == function for node in self._statements)

    def params(self) -> type:
        """The plugin's ``Params`` class, made once: a plan asks for it thousands of times."""
        self._params = self._params or self._make_params()
        return self._params

    def _make_params(self) -> type:
        body: list[ast.stmt] = [node for node in self._statements if _is_plain_import(node)]
        classes: list[ast.stmt] = [
            n for n in self._statements if isinstance(n, ast.ClassDef) and n.name == "Params"
        ]
        if not classes:
            raise FedreproError(f"{self.path}: a plugin needs a frozen dataclass named Params")
        namespace: dict[str, Any] = {"__name__": self.path.stem}
        module = ast.Module(body + classes[:1], type_ignores=[])
        try:
            exec(compile(ast.fix_missing_locations(module), str(self.path), "exec"), namespace)
        except NameError as error:
            raise FedreproError(
                f"{self.path}: Params may use only {', '.join(IMPORTABLE)} ({error})"
            ) from error
        params: type = namespace["Params"]
        params.__pydantic_config__ = {"extra": "forbid", "strict": True}  # type: ignore[attr-defined]
        return params


@cache
def header(kind: str, name: str) -> Header:
    """The header of a plugin; files are parsed once."""
    return Header(kind, name)


def resolved(spec: Any) -> dict[str, Any]:
    """Every field of a specification and of its plugins' parameters, defaults included, as JSON types."""
    out: dict[str, Any] = {}
    for item in fields(spec):
        value = getattr(spec, item.name)
        if isinstance(value, Choice):
            params = asdict(build(header(item.name, value.name).params(), value.params))
            value = {"name": value.name, "params": params}
        elif hasattr(value, "__dataclass_fields__"):
            value = asdict(value)
        out[item.name] = value
    return out


def leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Fields of a specification as dotted names; parameters of a plugin stand beside its name."""
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        name = prefix if key in ("name", "params") and prefix else f"{prefix}.{key}".lstrip(".")
        if isinstance(value, Mapping):
            found += leaves(value, name)
        elif value is not None:
            found.append((name, json.dumps(value) if isinstance(value, list | tuple) else value))
    return found


def _is_plain_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module in IMPORTABLE
