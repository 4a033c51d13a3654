"""What a plugin declares, read without importing it."""

import json
from pathlib import Path

import pytest

from fedrepro.core.registry import FOLDERS
from fedrepro.core.spec import AnalysisSpec, Choice, Partition
from fedrepro.errors import FedreproError
from fedrepro.provenance import header as module
from fedrepro.provenance.header import Header, resolved
from tests.helpers import python, spec_of

PLUGIN = '''"""A plugin."""
import torch_is_not_needed
from dataclasses import dataclass
from typing import Annotated
from annotated_types import Ge

PAPER = "paper"
NEEDS = ("a", "b")
SIZE = 2 * 3
OTHER: int = 4

@dataclass(frozen=True)
class Params:
    """``x``: something."""
    x: Annotated[float, Ge(0)] = 0.5
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of an algorithm named ``foo``, in a package of its own."""
    monkeypatch.setattr(module, "PACKAGE_ROOT", tmp_path)
    path = tmp_path / "algorithms" / "foo.py"
    path.parent.mkdir()
    path.write_text(PLUGIN)
    return path


def test_constants_are_read(plugin: Path) -> None:
    found = Header("algorithm", "foo")
    assert found.path == plugin
    assert found.constant("PAPER") == "paper"
    assert found.constant("NEEDS") == ("a", "b")
    assert found.constant("ABSENT") is None
    assert found.constant("ABSENT", "default") == "default"


def test_params_are_built_without_the_rest_of_the_file(plugin: Path) -> None:
    params = Header("algorithm", "foo").params()
    assert params() == params(x=0.5)
    assert params(x=2.0).x == 2.0


def test_a_constant_that_is_no_literal_is_named(plugin: Path) -> None:
    plugin.write_text(PLUGIN.replace('PAPER = "paper"', "PAPER = name()"))
    with pytest.raises(FedreproError, match=rf"{plugin}: PAPER must be a literal"):
        Header("algorithm", "foo").constant("PAPER")


def test_missing_params_are_named(plugin: Path) -> None:
    plugin.write_text(PLUGIN.replace("class Params", "class Settings"))
    with pytest.raises(FedreproError, match=rf"{plugin}: a plugin needs a frozen dataclass named Params"):
        Header("algorithm", "foo").params()


def test_params_that_use_another_module_are_refused(plugin: Path) -> None:
    plugin.write_text(PLUGIN.replace("x: Annotated[float, Ge(0)]", "x: np.float64"))
    with pytest.raises(FedreproError, match=r"Params may use only annotated_types, .*'np'"):
        Header("algorithm", "foo").params()


def test_a_syntax_error_names_file_and_line(plugin: Path) -> None:
    plugin.write_text("x = 1\ndef\n")
    with pytest.raises(FedreproError, match=rf"{plugin}, line 2: "):
        Header("algorithm", "foo")


def test_resolved_has_every_default() -> None:
    found = resolved(spec_of(algorithm=Choice("fedswe"), dynamics=Choice("sine", {"gamma": 0.1})))
    assert found["algorithm"] == {"name": "fedswe", "params": {"k_over_m": 0.0, "echo_clip": None}}
    assert found["dynamics"] == {"name": "sine", "params": {"gamma": 0.1, "period": 20}}
    assert found["model"]["name"] == "mlp"
    assert found["partition"] == {
        "clients": 4,
        "alpha": 0.5,
        "groups": 1,
        "assignment": "dirichlet",
        "streams": "keyed",
        "sizes": (),
    }
    assert found["global_lr"] == 1.0
    assert found["kind"] == "train"


def test_resolved_keeps_fields_that_are_not_used() -> None:
    found = resolved(AnalysisSpec(Choice("class_counts"), 3, dataset="mnist5k", partition=Partition(4, 0.5)))
    assert found["dynamics"] is None
    assert found["dataset"] == "mnist5k"


def test_no_plugin_and_no_heavy_library_is_imported() -> None:
    """Every plugin's header, in a process of its own."""
    code = """
import json, sys
from fedrepro.core import registry
from fedrepro.provenance.header import header
heads = [header(kind, name) for kind in registry.FOLDERS for name in registry.names(kind)]
for kind in ("algorithm", "analysis", "dynamics", "model"):
    assert all(header(kind, name).params()() is not None for name in registry.names(kind))
assert any(head.constant("PAPER") for head in heads)
print(json.dumps(sorted(sys.modules)))
"""
    loaded = set(json.loads(python(code)))
    assert {"torch", "pandas", "numpy", "matplotlib", "pyarrow"} & loaded == set()
    plugins = tuple(f"fedrepro.{folder}" for folder in FOLDERS.values())
    assert [name for name in loaded if name.startswith(plugins)] == []
