"""The engine benchmark: what it counts, what it derives from rates, how it treats who is missing or fails."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import engine, ordinary, workload
from benchmarks.engine import CONTESTANTS, Contestant

BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}


def test_flop_of_a_step() -> None:
    """By hand, and as PyTorch counts what it executes."""
    forward = 2 * (1024 * 32 * 27 + 256 * 32 * 288 + 2048 * 128 + 128 * 10)
    assert forward == 7_014_912
    assert workload.STEP_FLOP == 128 * 19_275_264 == 128 * (3 * forward - 2 * 1024 * 32 * 27)
    images, labels = torch.zeros(4, 3, 32, 32), torch.zeros(4, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(ordinary.Net()(images), labels).backward()
    assert counter.get_total_flops() * workload.BATCH == workload.STEP_FLOP * len(images)


def test_network_is_the_papers() -> None:
    assert sum(weight.numel() for weight in ordinary.Net().parameters()) == 273_706


def test_cohorts_are_fixed_and_without_repetition() -> None:
    cohorts = workload.cohorts()
    assert cohorts.shape == (workload.ROUNDS, workload.COHORT)
    assert all(len(set(cohort)) == workload.COHORT for cohort in cohorts.tolist())
    assert (cohorts == workload.cohorts()).all()


def test_local_steps_cover_epochs() -> None:
    """Ten batches of 128 from 256 images: five epochs, each image once an epoch, the crop within the pad."""
    images = torch.arange(1.0, 257.0).view(-1, 1, 1, 1).expand(-1, 3, 32, 32)
    batches = list(ordinary.cropped_batches(images, torch.arange(256)))
    assert [tuple(x.shape) for x, _ in batches] == [(128, 3, 32, 32)] * workload.LOCAL_STEPS
    for (_, first), (_, second) in zip(batches[::2], batches[1::2], strict=True):
        assert torch.equal(torch.cat([first, second]).sort().values, torch.arange(256))
    assert all((x[:, 0, 16, 16] == y + 1).all() for x, y in batches)


def test_average_moves_by_the_mean_update() -> None:
    server, trained = ordinary.Net(), [ordinary.Net().state_dict() for _ in range(2)]
    ordinary.average(server, trained)
    for name, value in server.state_dict().items():
        torch.testing.assert_close(value, (trained[0][name] + trained[1][name]) / 2)


def test_ratios_of_given_rates() -> None:
    repeats = {
        "ordinary": [16.0, 1.0, 17.0],
        "best": [25.0],
        "pfl": [24.0],
        "flower": [20.0],
        "ours": [40.0, 48.0, 50.0],
        "sgemm": [workload.STEP_FLOP * 96.0],
    }
    found = engine.summary(repeats)
    assert found["rates"] == {"ordinary": 16.0, "best": 25.0, "pfl": 24.0, "flower": 20.0, "ours": 48.0}
    assert found["ratio_to_ordinary_loop"] == 3.0 and found["ratio_to_best_loop"] == 1.92
    assert found["ratio_to_peers"] == {"pfl": 2.0, "flower": 2.4, "fastest": 2.0}
    assert found["share_of_sgemm_peak"] == pytest.approx(0.5)


def test_rates_of_processes_add_up() -> None:
    lines = [{"client_steps": 60, "seconds": 2.0}, {"client_steps": 60, "seconds": 3.0}]
    assert engine.rate(BY_NAME["best"], lines) == 50.0


def test_absent_peer_is_reported(tmp_path: Path) -> None:
    absent = replace(BY_NAME["pfl"], environment=tmp_path / "nowhere")
    console = Console(record=True, width=200)
    result = engine.measure([absent], seconds=1.0, repeats=1, console=console)
    assert result["status"] == {"pfl": "not installed"}
    assert result["ratio_to_peers"] == {} and result["repeats"] == {"pfl": []}
    console.print(engine.table(result))
    text = console.export_text()
    assert "pfl: not installed; make bench-peers installs it" in text and "│ not installed" in text


PROCESS = """
import json, sys
assert sys.argv[-1] == "--barrier"
print("ready", flush=True)
assert sys.stdin.readline() == "go\\n"
print(json.dumps({"client_steps": 10, "seconds": 2.0, "threads": 1, "settings": {}, "versions": {}}))
"""


def test_two_processes_start_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("process.py").write_text(PROCESS)
    result = engine.measure([Contestant("ours", ("process",), processes=2)], 1.0, 1, Console(quiet=True))
    assert result["rates"] == {"ours": 10.0} and result["settings"]["ours"]["processes"] == 2
    json.dumps(result)


def test_failed_contestant_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = engine.measure([Contestant("ours", ("absent_module",))], 1.0, 1, Console(quiet=True))
    assert result["status"] == {"ours": "ours failed; see results/bench/logs/ours.log"}
    assert "absent_module" in Path("results/bench/logs/ours.log").read_text()


def test_hanging_contestant_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "START_SECONDS", 0.2)
    Path("process.py").write_text("import time; time.sleep(60)")
    with pytest.raises(engine.ContestantFailed, match="best failed"):
        engine.run(Contestant("best", ("process",), processes=2), seconds=0.1)
