"""Running one job as the workflow does: what is checked before, and what is written after."""

import io
import json
from pathlib import Path

import pytest

from fedrepro.core.engine import Progress
from fedrepro.core.spec import Partition, PartitionSpec
from fedrepro.errors import FedreproError
from fedrepro.provenance import jobs
from fedrepro.provenance.code import closure, code_digest
from fedrepro.provenance.files import checked, sidecar_path
from fedrepro.provenance.identity import canonical_json
from fedrepro.provenance.manifest import verify
from fedrepro.runtime import device
from fedrepro.runtime.execute import check_code, execute
from fedrepro.runtime.progress import ProgressLog
from tests.helpers import ROOT, FinishedCell

SPEC = PartitionSpec("mnist5k", 3, Partition(4, 0.5))
CODE = code_digest(closure(jobs.modules("partition", SPEC)))


@pytest.fixture(autouse=True)
def _site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDREPRO_DEVICE", "cpu")
    monkeypatch.delenv("FEDREPRO_WORKFLOW", raising=False)


def make_partition(cell: FinishedCell, out: Path) -> None:
    """Run the job that makes the cell's partition, to another file."""
    inputs = {"train": Path(cell.planned.inputs["train"])}
    execute("partition", canonical_json(SPEC), CODE, inputs, {"partition": out})


def test_a_shared_input_gets_a_sidecar(cell: FinishedCell, tmp_path: Path) -> None:
    out = tmp_path / "made" / "partition.parquet"
    make_partition(cell, out)
    assert out.read_bytes() == Path(cell.planned.inputs["partition"]).read_bytes()
    assert checked(out) == json.loads(sidecar_path(out).read_text())["sha256"]
    assert json.loads(sidecar_path(out).read_text())["rows"] == 4000


def test_a_cell_gets_a_manifest_that_passes(cell: FinishedCell, tmp_path: Path) -> None:
    folder = tmp_path / "again" / cell.folder.name
    inputs = {name: Path(path) for name, path in cell.planned.inputs.items()}
    outputs = {"metrics": folder / "metrics.parquet", "manifest": folder / "manifest.json"}
    execute("train", cell.planned.canonical, cell.planned.code, inputs, outputs)
    verified = verify(folder, cell.planned)
    assert (folder / "metrics.parquet").read_bytes() == (cell.folder / "metrics.parquet").read_bytes()
    assert verified.manifest["site"] == {"FEDREPRO_DEVICE": "cpu"}
    assert verified.manifest["environment"]["device"] == "cpu"
    assert {"lock", "python", "numpy", "torch", "machine", "cpu"} <= set(verified.manifest["environment"])
    assert verified.manifest["seconds"] > 0
    assert verified.manifest["peak_memory_bytes"] > 10**6
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "metrics.parquet"]


def test_what_a_killed_job_left_is_removed(cell: FinishedCell, tmp_path: Path) -> None:
    """Its own temporary files, by whichever process, and no other's."""
    out = tmp_path / "p[1].parquet"
    left = [tmp_path / f".{name}.8384.tmp" for name in (out.name, f"{out.name}.json")]
    others = [tmp_path / name for name in (".p1.parquet.8384.tmp", ".q.parquet.8384.tmp", "p[1].parquet.tmp")]
    for path in (*left, *others):
        path.write_bytes(b"half")
    make_partition(cell, out)
    assert checked(out)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)


def test_code_that_changed_since_the_plan_is_refused(cell: FinishedCell, tmp_path: Path) -> None:
    out = {"partition": tmp_path / "out.parquet"}
    with pytest.raises(FedreproError, match=rf"code changed .*planned 0{{12}}, on disk {CODE}"):
        execute(
            "partition", canonical_json(SPEC), "0" * 12, {"train": Path(cell.planned.inputs["train"])}, out
        )
    assert not out["partition"].exists()


def test_a_damaged_input_is_refused(cell: FinishedCell, tmp_path: Path) -> None:
    Path(cell.planned.inputs["trace"]).write_bytes(b"short")
    inputs = {name: Path(path) for name, path in cell.planned.inputs.items()}
    outputs = {"metrics": tmp_path / "m" / "metrics.parquet", "manifest": tmp_path / "m" / "manifest.json"}
    with pytest.raises(FedreproError, match=r"trace\.parquet does not match its sidecar"):
        execute("train", cell.planned.canonical, cell.planned.code, inputs, outputs)
    assert not (tmp_path / "m").exists()


def test_code_of_another_workflow_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDREPRO_WORKFLOW", str(tmp_path))
    with pytest.raises(FedreproError, match=r"imported from .*but the workflow is"):
        check_code("a", "a")
    monkeypatch.setenv("FEDREPRO_WORKFLOW", str(ROOT))
    assert check_code("a", "a") is None  # type: ignore[func-returns-value]


def test_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.choose() == "cpu"
    monkeypatch.setenv("FEDREPRO_DEVICE", "gpu")
    with pytest.raises(FedreproError, match=r"FEDREPRO_DEVICE is 'gpu'; allowed: auto, cpu, cuda"):
        device.choose()
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("FEDREPRO_DEVICE", "cuda")
    with pytest.raises(FedreproError, match="PyTorch sees no CUDA device"):
        device.choose()
    monkeypatch.delenv("FEDREPRO_DEVICE")
    assert device.choose() == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert device.choose() == "cuda"


def test_progress_speaks_when_there_is_something_to_say() -> None:
    stream = io.StringIO()
    log = ProgressLog(stream, every_seconds=1000)
    log(Progress(1, 10, {}))
    assert stream.getvalue() == ""
    log(Progress(2, 10, {"server": 0.256}))
    assert stream.getvalue().startswith("round 2/10  ")
    assert "server 25.6 %" in stream.getvalue()
    chatty = io.StringIO()
    ProgressLog(chatty, every_seconds=0)(Progress(0, 10, {}))
    assert chatty.getvalue().startswith("round 0/10  ")
