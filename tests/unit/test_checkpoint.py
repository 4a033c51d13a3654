"""Interrupted cells: what is saved, what is refused, and that going on ends in the same bytes."""

import io
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedrepro.cells import train as train_cell
from fedrepro.core import engine, registry
from fedrepro.core.engine import Snapshot
from fedrepro.core.job import Context, Inputs, Result
from fedrepro.core.minibatches import Sampler
from fedrepro.core.spec import Choice, TrainSpec
from fedrepro.errors import FedreproError
from fedrepro.provenance import jobs
from fedrepro.provenance.code import closure, code_digest
from fedrepro.provenance.identity import canonical_json, cell_id
from fedrepro.runtime.checkpoint import (
    SIGNALS,
    Attempts,
    Checkpoints,
    Interrupted,
    Settings,
    load,
    save,
)
from fedrepro.runtime.execute import checkpoint_folder, execute
from tests.helpers import FinishedCell

IDENTITY = {"cell": "train-x", "code": "0123", "inputs": {"trace": "ab"}, "environment": {"torch": "2"}}
STATE = {
    "server": torch.tensor([0.1, -2.5]),
    "local": torch.arange(6, dtype=torch.float64).view(2, 3),
    "last_active": torch.tensor([-1, 7]),
    "flag": torch.tensor(True),
}
ROWS: list[dict[str, Any]] = [
    {"round": 0, "loss": 0.1 + 0.2, "consensus_error": None},
    {"round": 3, "loss": float("inf")},
]
SNAPSHOT = Snapshot(3, STATE, ROWS)


def same(one: Snapshot, other: Snapshot) -> bool:
    return (
        one.completed == other.completed
        and one.rows == other.rows
        and one.state.keys() == other.state.keys()
        and all(torch.equal(one.state[key], other.state[key]) for key in one.state)
        and all(one.state[key].dtype == other.state[key].dtype for key in one.state)
    )


def test_a_checkpoint_survives_the_file(tmp_path: Path) -> None:
    save(tmp_path / "a" / "round-00000003.safetensors", SNAPSHOT, IDENTITY)
    assert same(load(tmp_path / "a" / "round-00000003.safetensors", IDENTITY), SNAPSHOT)
    assert len(list((tmp_path / "a").iterdir())) == 1


@pytest.mark.parametrize("key", IDENTITY)
def test_a_foreign_checkpoint_is_refused(tmp_path: Path, key: str) -> None:
    path = tmp_path / "round-00000003.safetensors"
    save(path, SNAPSHOT, IDENTITY | {key: "other"})
    with pytest.raises(FedreproError, match=rf"foreign: it was made with another {key}"):
        load(path, IDENTITY)


@pytest.mark.parametrize("kept", [0, 7, 200, -1])
def test_a_truncated_checkpoint_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "round-00000003.safetensors"
    save(path, SNAPSHOT, IDENTITY)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FedreproError, match="not a whole checkpoint"):
        load(path, IDENTITY)


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "round-00000003.safetensors"
    save(path, SNAPSHOT, IDENTITY)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(FedreproError, match="damaged"):
        load(path, IDENTITY)


class Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def keeper_at(folder: Path, clock: Clock) -> Checkpoints:
    return Checkpoints(folder, IDENTITY, settings=Settings(), clock=clock)


def files(folder: Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("*.safetensors"))


def test_saved_every_five_minutes_and_two_are_kept(tmp_path: Path) -> None:
    clock = Clock()
    keeper = keeper_at(tmp_path, clock)
    kept = []
    for completed in range(1, 11):
        clock.now += 100
        keeper.committed(SNAPSHOT._replace(completed=completed))
        kept.append(files(tmp_path))
    assert kept == [[], [], [3], [3], [3], [3, 6], [3, 6], [3, 6], [6, 9], [6, 9]]


def test_the_older_checkpoint_serves_where_the_newer_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for completed in (4, 9):
        save(
            tmp_path / f"round-{completed:08d}.safetensors", SNAPSHOT._replace(completed=completed), IDENTITY
        )
    (tmp_path / "round-00000009.safetensors").write_bytes(b"short")
    restored = keeper_at(tmp_path, Clock()).restore()
    assert restored is not None
    assert restored.completed == 4
    said = capsys.readouterr().err
    assert "round-00000009.safetensors is not a whole checkpoint" in said
    assert "going on after round 4" in said
    assert files(tmp_path) == [4]


def test_with_foreign_checkpoints_only_the_run_starts_over(tmp_path: Path) -> None:
    save(tmp_path / "round-00000004.safetensors", SNAPSHOT, IDENTITY | {"code": "other"})
    assert keeper_at(tmp_path, Clock()).restore() is None
    assert files(tmp_path) == []


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_saves_the_last_committed_state_and_exits(tmp_path: Path, signum: int) -> None:
    clock = Clock()
    keeper = keeper_at(tmp_path, clock)
    clock.now = 61
    with pytest.raises(Interrupted) as stopped, keeper.listening():
        keeper.committed(SNAPSHOT)
        os.kill(os.getpid(), signum)
        time.sleep(5)  # not reached: the handler runs between bytecodes
    assert stopped.value.code == 128 + signum
    assert files(tmp_path) == [3]


def test_a_signal_in_a_commit_waits_for_its_end(tmp_path: Path) -> None:
    clock = Clock()
    keeper = keeper_at(tmp_path, clock)
    clock.now = 61
    done = False
    with pytest.raises(Interrupted), keeper.listening(), keeper.commit():
        os.kill(os.getpid(), signal.SIGTERM)
        keeper.committed(SNAPSHOT._replace(completed=8))
        done = True
    assert done
    assert files(tmp_path) == [8]


def test_a_short_run_leaves_no_checkpoint(tmp_path: Path) -> None:
    clock = Clock()
    keeper = keeper_at(tmp_path, clock)
    clock.now = 59
    with pytest.raises(Interrupted), keeper.listening():
        keeper.committed(SNAPSHOT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert files(tmp_path) == []


def test_handlers_are_put_back(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with keeper_at(tmp_path, Clock()).listening():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    clock = Clock()
    keeper = keeper_at(tmp_path / "file", clock)
    clock.now = 1000
    keeper.committed(SNAPSHOT)
    assert "cannot save" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "soon", "-1", "inf", "nan"])
def test_a_bad_interval_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FEDREPRO_CHECKPOINT_SECONDS", text)
    with pytest.raises(FedreproError, match=rf"FEDREPRO_CHECKPOINT_SECONDS is '{text}'; allowed: seconds"):
        Settings.of_site()


def test_the_interval_of_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.of_site() == Settings(300, 60)
    monkeypatch.setenv("FEDREPRO_CHECKPOINT_SECONDS", "20")
    assert Settings.of_site() == Settings(20, 20)


def test_two_failures_after_the_same_round_end_the_attempts(tmp_path: Path) -> None:
    def attempt(completed: int) -> int:
        attempts = Attempts(tmp_path, IDENTITY)
        number = attempts.begin()
        attempts.failed(completed, RuntimeError("out of memory"))
        return number

    assert [attempt(5), attempt(9), attempt(9)] == [1, 2, 3]
    with pytest.raises(FedreproError, match=r"twice after round 9, .*RuntimeError: out of memory.*delete"):
        attempt(9)
    assert Attempts(tmp_path, IDENTITY | {"code": "mended"}).begin() == 1


# Whole cells, through the same call as the workflow's rule.


def job(cell: FinishedCell, spec: TrainSpec, folder: Path) -> tuple[Callable[[], None], Path]:
    """A run of a cell as the workflow starts it, on the inputs of another, and the folder it writes."""
    out = folder / "cells" / cell_id(spec)
    outputs = {"metrics": out / "metrics.parquet", "manifest": out / "manifest.json"}
    inputs = {key: Path(path) for key, path in cell.planned.inputs.items()}
    code = code_digest(closure(jobs.modules("train", spec)))
    return lambda: execute("train", canonical_json(spec), code, inputs, outputs), out


def in_child(action: Callable[[], None]) -> int:
    """Fork, run, and give the process id; a fork spares the import of PyTorch."""
    child = os.fork()
    if child:
        return child
    try:
        sys.stderr = io.StringIO()
        action()
        os._exit(0)
    finally:
        os._exit(1)


@pytest.fixture(autouse=True)
def _site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDREPRO_DEVICE", "cpu")
    monkeypatch.delenv("FEDREPRO_WORKFLOW", raising=False)
    monkeypatch.delenv("FEDREPRO_CHECKPOINT_SECONDS", raising=False)


class Killing(Sampler):
    """A sampler that ends its process without notice, some time after it is asked for one round."""

    stop = 0
    seconds = 0.0

    def draw(self, clients: Any, t: int) -> Any:
        if t == self.stop:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
        return super().draw(clients, t)


@pytest.mark.parametrize("name", registry.names("algorithm"))
def test_killed_cells_go_on_to_the_same_bytes(
    name: str, cell: FinishedCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 in every round, at a random moment of it; each attempt goes on from the last checkpoint."""
    spec = replace(cell.spec, algorithm=Choice(name), model=Choice("mlp", {"hidden": (8,)}), crop=1)
    run, straight = job(cell, spec, tmp_path / "straight")
    run()
    monkeypatch.setenv("FEDREPRO_CHECKPOINT_SECONDS", "0")
    run, out = job(cell, spec, tmp_path / "killed")
    monkeypatch.setattr(engine, "Sampler", Killing)
    rng = random.Random(name)
    killed = 0
    for stop in range(spec.rounds):
        Killing.stop, Killing.seconds = stop, rng.choice([1e-6, 2e-3, 5e-3])
        _, status = os.waitpid(in_child(run), 0)
        killed += os.WIFSIGNALED(status)
    Killing.stop = -1
    run()
    assert (out / "metrics.parquet").read_bytes() == (straight / "metrics.parquet").read_bytes()
    assert not checkpoint_folder(out).exists()
    assert killed


def test_attempts_are_counted_in_the_manifest(
    cell: FinishedCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = job(cell, cell.spec, tmp_path / "killed")
    monkeypatch.setattr(engine, "Sampler", Killing)
    for stop, attempts in ((1, None), (2, None), (-1, 3)):
        Killing.stop, Killing.seconds = stop, 1e-6
        os.waitpid(in_child(run), 0)
        if attempts:
            assert json.loads((out / "manifest.json").read_text())["attempts"] == attempts
        else:
            assert not out.exists()


def test_sigterm_in_a_long_round_saves_within_five_seconds(
    cell: FinishedCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent when the first round is saved: the second, of 3,200 steps, takes many times longer."""
    monkeypatch.setenv("FEDREPRO_CHECKPOINT_SECONDS", "1e-9")
    spec = replace(cell.spec, local_steps=800, model=Choice("mlp", {"hidden": (128,)}))
    run, out = job(cell, spec, tmp_path / "stopped")
    child = in_child(run)
    limit = time.monotonic() + 60
    while not files(checkpoint_folder(out)) and time.monotonic() < limit:
        time.sleep(0.05)
    sent = time.monotonic()
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert time.monotonic() - sent < 5
    assert os.WEXITSTATUS(status) != 0
    assert not out.exists()
    assert files(checkpoint_folder(out)) == [1]


def test_a_cell_that_fails_twice_at_the_same_round_stops(
    cell: FinishedCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def failing(spec: TrainSpec, inputs: Inputs, context: Context) -> Result:
        runs.append(1)
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(train_cell, "run", failing)
    run, out = job(cell, cell.spec, tmp_path / "failing")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="CUDA out of memory"):
            run()
    with pytest.raises(FedreproError, match=r"failed twice after round 0.*CUDA out of memory"):
        run()
    assert len(runs) == 2
    assert not out.exists()
