"""Several GPUs on one machine: every cell takes its own, or a place on one."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from fedrepro.errors import FedreproError
from fedrepro.runtime import device

FORK = multiprocessing.get_context("fork")
TWO = ("0", "1")


class Holder:
    """A process that takes a place and keeps it until it is ended."""

    def __init__(self, folder: Path, cells: int = 1) -> None:
        self._answer, theirs = FORK.Pipe()
        self.process = FORK.Process(target=self._hold, args=(theirs, folder, cells))
        self.process.start()

    @staticmethod
    def _hold(answer: Connection, folder: Path, cells: int) -> None:
        answer.send(device.take(TWO, cells, folder))
        time.sleep(60)

    def taken(self, seconds: float) -> int | None:
        return self._answer.recv() if self._answer.poll(seconds) else None

    def end(self, signum: int = signal.SIGKILL) -> None:
        if self.process.pid and self.process.is_alive():
            os.kill(self.process.pid, signum)
        self.process.join()


Start = Callable[..., Holder]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    holders: list[Holder] = []

    def new(cells: int = 1) -> Holder:
        holders.append(Holder(tmp_path, cells))
        return holders[-1]

    yield new
    for holder in holders:
        holder.end()


def test_concurrent_cells_have_a_gpu_each_and_a_third_waits_for_one(start: Start) -> None:
    """The first is killed without notice; its GPU goes to the one that waits."""
    first, second = start(), start()
    freed, kept = first.taken(10), second.taken(10)
    assert {freed, kept} == {0, 1}
    third = start()
    assert third.taken(1.5) is None
    first.end()
    assert third.taken(10) == freed


def test_two_cells_on_a_gpu(start: Start) -> None:
    """Places fill evenly: one cell on each GPU before a second on any."""
    taken = [start(2).taken(10) for _ in range(4)]
    assert taken == [0, 1, 0, 1]
    assert start(2).taken(1.5) is None


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """PyTorch as on a machine with two GPUs; gives the devices that were made current."""
    current: list[int] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", current.append)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for name in ("FEDREPRO_DEVICE", "FEDREPRO_CELLS_PER_GPU", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return current


def test_a_cell_runs_on_the_gpu_it_took(two_gpus: list[int], start: Start) -> None:
    assert [device.choose(), device.choose()] == ["cuda", "cuda"]
    assert two_gpus == [0, 1]


def test_a_gpu_has_one_name_however_many_a_process_sees(
    two_gpus: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    assert device.visible(2) == ["5", "3"]
    device.choose()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, 7")
    device.choose()
    assert two_gpus == [0, 1], "GPU 5 is taken, so the second process has 7"
    assert {path.name for path in tmp_path.glob("fedrepro-gpus-*/*")} == {"5.0", "7.0"}


def test_the_queue_has_chosen_already(two_gpus: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert device.choose() == "cuda" and two_gpus == []


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_a_bad_number_of_cells(two_gpus: list[int], monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FEDREPRO_CELLS_PER_GPU", text)
    with pytest.raises(FedreproError, match=f"FEDREPRO_CELLS_PER_GPU is '{text}'; allowed: a whole number"):
        device.choose()
