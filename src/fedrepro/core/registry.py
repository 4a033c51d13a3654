"""Plugins by file name: ``algorithms/foo.py`` is the algorithm ``foo``.

Names are known without importing anything; a plugin is imported when a job loads it. This is the only
place in the package that imports dynamically.
"""

import importlib
from pathlib import Path
from types import ModuleType

PACKAGE_ROOT = Path(__file__).parents[1]
FOLDERS = {
    "algorithm": "algorithms",
    "analysis": "analyses",
    "dataset": "datasets",
    "dynamics": "dynamics",
    "figure": "figures",
    "game": "games",
    "model": "models",
    "problem": "problems",
    "table": "tables",
}


def names(kind: str) -> list[str]:
    """Sorted names of the plugins of one kind, one per file."""
    return sorted(path.stem for path in (PACKAGE_ROOT / FOLDERS[kind]).glob("[!_]*.py"))


def module_name(kind: str, name: str) -> str:
    """Dotted module name of a plugin, e.g. ``fedrepro.algorithms.fedswe``."""
    return f"fedrepro.{FOLDERS[kind]}.{name}"


def load(kind: str, name: str) -> ModuleType:
    """Import a plugin. The name has been checked by the plan."""
    return importlib.import_module(module_name(kind, name))
