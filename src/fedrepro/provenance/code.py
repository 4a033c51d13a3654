"""Digests of the code behind a result: the import closure of an entry module and its plugins.

Comments, docstrings and layout do not count. Closures stop at `NEUTRAL`, the packages that cannot change a
number, which no module below them imports (a test runs cells without them).
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.provenance.source import statements

NEUTRAL = ("cli", "forks", "__main__", "plan", "provenance", "runtime")
UNTRACKED_NAMES = ("CITATION", "__version__")
DIGEST_LENGTH = 12


def closure(modules: Iterable[str]) -> dict[str, str]:
    """Digest of every ``fedrepro`` module that the given ones import, themselves included."""
    found: dict[str, str] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in found or _is_neutral(name):
            continue
        found[name], imports = _module(_file(name))
        pending += imports
        if "." in name:
            pending.append(name.rpartition(".")[0])
    return dict(sorted(found.items()))


def code_digest(modules: Mapping[str, str]) -> str:
    """One digest, 12 hex digits, of a closure."""
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(modules.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def _is_neutral(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and parts[1] in NEUTRAL


def _file(name: str) -> Path:
    base = PACKAGE_ROOT.joinpath(*name.split(".")[1:])
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@cache
def _module(path: Path) -> tuple[str, list[str]]:
    tree = ast.Module(list(statements(path)), type_ignores=[])
    imports = sorted(_imports(tree))
    text = ast.unparse(_without_documentation(tree))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH], imports


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, where imports and docstrings are; expressions are most of a tree."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, name, ()):
            if isinstance(node, ast.stmt):
                yield node
            yield from _statements(node)


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("fedrepro")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedrepro"):
            names.add(str(node.module))
            submodules = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name for name in submodules if _file(name).exists()}
    return names


def _without_documentation(tree: ast.Module) -> ast.Module:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in (tree, *_statements(tree)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    tree.body = [node for node in tree.body if not _names_untracked(node)]
    return tree


def _names_untracked(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id in UNTRACKED_NAMES for target in node.targets
    )
