"""The import graph of the package, and what no module may do.

Layers, lowest first: errors, core, stats, presentation, plugins; beside them provenance, runtime, plan,
claims, outputs, cli; and, apart from those, the entry modules in inputs and cells.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from fedrepro.core.registry import FOLDERS, PACKAGE_ROOT

PLUGINS = set(FOLDERS.values())
BELOW_OUTPUTS = {"errors", "core", "stats", "presentation", "provenance", "runtime", "plan", *PLUGINS}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "core": {"core", "errors"},
    "stats": {"stats", "core"},
    "presentation": {"presentation", "core", "errors"},
    **{folder: {"core", "stats", "presentation", "errors"} for folder in PLUGINS},
    "provenance": {"provenance", "core", "errors"},
    "runtime": {"runtime", "core", "provenance", "errors"},
    "inputs": {"core", "errors"},
    "cells": {"core", "errors"},
    "plan": {"plan", "core", "provenance", "runtime", "errors"},
    "claims": {"claims", "stats", "core", "presentation", "plan", "errors"},
    "outputs": {"outputs", "claims", *BELOW_OUTPUTS},
    "cli": {"outputs", "claims", *BELOW_OUTPUTS},
    "forks": {"cli"},
    "__main__": {"cli", "forks"},
}
DYNAMIC = {"forks.py", "core/registry.py", "runtime/execute.py", "provenance/header.py"}
NUMPY_RANDOM = {"Generator", "Philox"}
LEGACY_RANDOM = {
    "core/legacy.py": {"RandomState"},  # the stream of the authors' released code
    "problems/huber40.py": {"RandomState"},  # a published instance, drawn with it
}
TORCH_GLOBAL = {
    "manual_seed", "seed", "rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial",
}  # fmt: skip


def sources() -> dict[str, str]:
    """Source of every module of the package by its path."""
    return {
        str(path.relative_to(PACKAGE_ROOT)): path.read_text() for path in sorted(PACKAGE_ROOT.rglob("*.py"))
    }


def dotted(path: str) -> str:
    parts = ["fedrepro", *Path(path).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(text: str, modules: set[str]) -> set[str]:
    """The modules of the package that a source imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= members & modules
            if members - modules:
                found.add(node.module)
    return {name for name in found if name.split(".")[0] == "fedrepro"}


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def upward(files: dict[str, str]) -> list[str]:
    """Imports that the order of layers forbids."""
    modules = {dotted(path) for path in files}
    return [
        f"{dotted(path)} imports {name}"
        for path, text in files.items()
        for name in sorted(imports(text, modules))
        if layer(name) not in ALLOWED.get(layer(dotted(path)), set()) | {""}
    ]


def cycle(files: dict[str, str]) -> list[str]:
    """Modules of one import cycle, or nothing."""
    modules = {dotted(path) for path in files}
    graph = {dotted(path): imports(text, modules) - {dotted(path)} for path, text in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def forbidden(path: str, text: str) -> Iterator[str]:
    """What a module may not do."""
    for node in ast.walk(ast.parse(text)):
        what = ""
        if isinstance(node, ast.ImportFrom):
            what = "relative import" if node.level else ""
            if (node.module or "").split(".")[0] == "random" or node.module == "numpy.random":
                what = "random"
            if node.module == "importlib" and path not in DYNAMIC:
                what = "dynamic import"
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
            what = "random" if names & {"random", "numpy.random"} else ""
            if "importlib" in names and path not in DYNAMIC:
                what = "dynamic import"
        elif isinstance(node, ast.Name) and node.id in ("__import__", "exec", "eval"):
            what = "dynamic import" if path not in DYNAMIC else ""
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            allowed = NUMPY_RANDOM | LEGACY_RANDOM.get(path, set())
            if owner in ("np.random", "numpy.random") and node.attr not in allowed:
                what = "random"
            if owner == "torch" and node.attr in TORCH_GLOBAL:
                what = "random"
        if what:
            yield f"{path}, line {getattr(node, 'lineno', 0)}: {what}"


def test_every_package_has_a_place_in_the_order() -> None:
    found = {layer(dotted(path)) for path in sources()} - {""}
    assert found == set(ALLOWED)


def test_no_import_goes_up() -> None:
    assert upward(sources()) == []


def test_no_import_cycle() -> None:
    assert cycle(sources()) == []


def test_no_module_does_what_is_forbidden() -> None:
    assert [line for path, text in sources().items() for line in forbidden(path, text)] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("core/a.py", "from fedrepro.plan import b"),
        ("core/a.py", "from fedrepro.runtime.b import c"),
        ("cells/a.py", "import fedrepro.provenance.b"),
        ("algorithms/a.py", "def f():\n    from fedrepro.algorithms import b"),
        ("figures/a.py", "from fedrepro.models import b"),
        ("plan/a.py", "from fedrepro.outputs import b"),
        ("runtime/a.py", "from fedrepro.cells.b import c"),
    ],
)
def test_the_check_sees_an_upward_import(path: str, text: str) -> None:
    other = text.split("fedrepro.")[1].split(" ")[0].replace(".b", "") + "/b.py"
    assert len(upward({path: text, other: ""})) == 1


def test_the_check_sees_a_cycle() -> None:
    files = {"core/a.py": "from fedrepro.core import b", "core/b.py": "from fedrepro.core.a import x"}
    assert set(cycle(files)) == {"fedrepro.core.a", "fedrepro.core.b"}


@pytest.mark.parametrize(
    "text",
    [
        "from . import rng",
        "import importlib",
        "from importlib import import_module",
        "__import__('x')",
        "exec('x')",
        "import random",
        "from random import choice",
        "np.random.seed(1)",
        "np.random.default_rng(1)",
        "np.random.RandomState(1)",
        "torch.manual_seed(1)",
        "torch.randn(3)",
    ],
)
def test_the_check_sees_what_is_forbidden(text: str) -> None:
    assert len(list(forbidden("core/a.py", text))) == 1


def test_importlib_metadata_and_keyed_generators_are_fine() -> None:
    text = "import importlib.metadata\nnp.random.Generator(np.random.Philox(key=1))"
    assert list(forbidden("core/a.py", text)) == []
