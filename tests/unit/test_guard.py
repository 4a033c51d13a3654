"""A training job, in a process of its own: what it loads, and what it does without."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest

from fedrepro.provenance import jobs
from fedrepro.provenance.code import closure
from fedrepro.provenance.identity import canonical_json
from tests.helpers import FinishedCell, python

RUN = """
import json, sys
from pathlib import Path
if sys.argv[4] == "stubs":
    class Stub:
        def __getattr__(self, name):
            raise AssertionError("used: " + name)
    for name in ("plan", "provenance", "runtime", "cli", "__main__"):
        sys.modules["fedrepro." + name] = Stub()
import torch
with_torch = set(sys.modules)
from fedrepro.cells import train
from fedrepro.core.job import Context
from fedrepro.core.spec import TrainSpec, build
inputs = {name: Path(path) for name, path in json.loads(sys.argv[2]).items()}
result = train.run(build(TrainSpec, json.loads(sys.argv[1])), inputs, Context())
Path(sys.argv[3]).write_bytes(result.files["metrics"].content)
print(json.dumps([sorted(sys.modules), sorted(with_torch)]))
"""
HEAVY = ("pandas", "numba", "scipy", "matplotlib", "torchvision", "seaborn", "mlxtend", "pydantic", "yaml")


def run(cell: FinishedCell, out: Path, mode: str) -> tuple[set[str], set[str]]:
    arguments = (canonical_json(cell.spec), json.dumps(dict(cell.planned.inputs)), out, mode)
    loaded, with_torch = json.loads(python(RUN, *arguments))
    return set(loaded), set(with_torch)


@pytest.fixture(scope="module")
def loaded(
    pristine: FinishedCell, tmp_path_factory: pytest.TempPathFactory
) -> tuple[set[str], set[str], bytes]:
    out = tmp_path_factory.mktemp("guard") / "metrics.parquet"
    return *run(pristine, out, "plain"), out.read_bytes()


def test_a_fresh_process_gives_the_bytes_of_this_one(
    loaded: tuple[set[str], set[str], bytes], pristine: FinishedCell
) -> None:
    assert loaded[2] == (pristine.folder / "metrics.parquet").read_bytes()


def test_without_the_neutral_packages_the_bytes_are_the_same(
    loaded: tuple[set[str], set[str], bytes], pristine: FinishedCell, tmp_path: Path
) -> None:
    run(pristine, tmp_path / "metrics.parquet", "stubs")
    assert (tmp_path / "metrics.parquet").read_bytes() == loaded[2]


def test_only_modules_of_the_closure_are_loaded(
    loaded: tuple[set[str], set[str], bytes], pristine: FinishedCell
) -> None:
    ours = {name for name in loaded[0] if name.split(".")[0] == "fedrepro"}
    assert "fedrepro.algorithms.fedavg_active" in ours
    assert ours <= set(closure(jobs.modules("train", pristine.spec)))


def test_training_loads_no_heavy_library(loaded: tuple[set[str], set[str], bytes]) -> None:
    assert {name.split(".")[0] for name in loaded[0]} & set(HEAVY) == set()


def test_no_module_of_the_closure_imports_an_optimiser_or_a_heavy_library(pristine: FinishedCell) -> None:
    unwanted = {"torch.optim", *HEAVY} - {"numba"}  # the pooling kernel, loaded for wide networks only
    for name in closure(
        [jobs.JOBS["train"].entry, "fedrepro.algorithms.fedavg_active", "fedrepro.models.mlp"]
    ):
        found = importlib.util.find_spec(name)
        assert found and found.origin
        tree = ast.parse(Path(found.origin).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & unwanted
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in unwanted


def test_training_adds_no_optimiser_to_what_pytorch_loads_itself(
    loaded: tuple[set[str], set[str], bytes],
) -> None:
    """``import torch`` loads ``torch.optim``; we use none of it."""
    added = loaded[0] - loaded[1]
    assert not [name for name in added if name.startswith(("torch.optim", "torch.distributed"))]


def test_the_whole_job_loads_the_closure_and_neutral_packages_only(
    pristine: FinishedCell, tmp_path: Path
) -> None:
    """Through the command line, with provenance and atomic writing, as the workflow runs it."""
    code = """
import json, sys
from fedrepro.cli import main
status = main(json.loads(sys.argv[1]))
print(json.dumps([status, sorted(n for n in sys.modules if n.split(".")[0] in json.loads(sys.argv[2]))]))
"""
    folder = tmp_path / pristine.folder.name
    inputs = [f"{name}={path}" for name, path in pristine.planned.inputs.items()]
    command = ["run", "train", "--spec", pristine.planned.canonical, "--code", pristine.planned.code]
    command += ["--input", *inputs, "--output", f"metrics={folder}/metrics.parquet"]
    command += [f"manifest={folder}/manifest.json"]
    status, names = json.loads(python(code, json.dumps(command), json.dumps(["fedrepro", *HEAVY])))
    assert status == 0
    assert (folder / "metrics.parquet").read_bytes() == (pristine.folder / "metrics.parquet").read_bytes()
    known = set(closure(jobs.modules("train", pristine.spec)))
    neutral = ("fedrepro.cli", "fedrepro.provenance", "fedrepro.runtime")
    assert [name for name in names if name not in known and not name.startswith(neutral)] == []
