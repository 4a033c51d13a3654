"""Checkpoints of training cells: an interrupted cell goes on where it was, to the same bytes.

A cell's folder ``.checkpoints/<cell>`` holds its last two checkpoints and ``attempts.json``. Nobody declares
it to Snakemake, which deletes the declared outputs of a job that fails. It is gone when the cell is done.
"""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedrepro.core.engine import Snapshot
from fedrepro.errors import FedreproError
from fedrepro.runtime.atomic import write_all

EVERY_SECONDS = 300.0
WORTH_SECONDS = 60.0  # cells shorter than this start over
KEPT = 2
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class Settings(NamedTuple):
    """How often to save, and how long a cell must have run for a checkpoint to be worth it, in seconds."""

    every: float = EVERY_SECONDS
    worth: float = WORTH_SECONDS

    @classmethod
    def of_site(cls) -> "Settings":
        """``FEDREPRO_CHECKPOINT_SECONDS`` replaces the five minutes where jobs are interrupted more often."""
        text = os.environ.get("FEDREPRO_CHECKPOINT_SECONDS", str(EVERY_SECONDS))
        try:
            every = float(text)
        except ValueError:
            every = -1.0
        if not 0 <= every < float("inf"):
            raise FedreproError(
                f"environment variable FEDREPRO_CHECKPOINT_SECONDS is {text!r}; allowed: seconds, at least 0"
            )
        return cls(every, min(every, WORTH_SECONDS))


class Interrupted(SystemExit):
    """A signal ended the run after its state was saved."""

    def __init__(self, signum: int):
        super().__init__(128 + signum)


class Checkpoints:
    """The keeper of one cell (`fedrepro.core.engine.Keeper`).

    Parameters
    ----------
    folder : Path
        The cell's checkpoint folder.
    identity : mapping
        Cell, code, input hashes and environment; checkpoints of any other identity are refused.
    device : str
        Where restored tensors go.
    settings : Settings
        When to save.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        device: str = "cpu",
        settings: Settings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._folder, self._device = folder, device
        self._identity = json.loads(json.dumps(identity))
        self._settings, self._clock = settings or Settings.of_site(), clock
        self._started = self._saved_at = clock()
        self._last: Snapshot | None = None
        self._saved = -1  # completed rounds of the newest checkpoint on disk
        self._busy, self._pending = False, 0

    def restore(self) -> Snapshot | None:
        """The newest checkpoint that is whole and belongs to this cell; others are reported and deleted."""
        for path in reversed(self._files()):
            try:
                snapshot = load(path, self._identity, self._device)
            except FedreproError as error:
                _say(f"{error}; starting from an earlier checkpoint, or over")
                path.unlink()
                continue
            _say(f"going on after round {snapshot.completed}, from {path}")
            self._last, self._saved = snapshot, snapshot.completed
            return snapshot
        return None

    @property
    def completed(self) -> int:
        """Rounds of the last committed state."""
        return self._last.completed if self._last else 0

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Hold signals back."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            if self._pending:
                self._stop(self._pending)

    def committed(self, snapshot: Snapshot) -> None:
        """Remember a state, and save it when the last save is long enough ago."""
        self._last = snapshot
        if self._clock() - self._saved_at >= self._settings.every:
            self._save()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Save and stop on SIGTERM, SIGINT and SIGUSR1 while the block runs."""
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self._busy:
            self._pending = signum
        else:
            self._stop(signum)

    def _stop(self, signum: int) -> None:
        self._busy, self._pending = True, 0  # a second signal does not interrupt the save
        name = signal.Signals(signum).name
        if self._clock() - self._started < self._settings.worth:
            _say(f"{name}: stopped after round {self.completed}; too early for a checkpoint")
        elif self._last and self._last.completed > self._saved:
            self._save()
            _say(f"{name}: stopped after round {self._saved}, which is saved")
        else:
            _say(f"{name}: stopped; the checkpoint after round {self._saved} is the last")
        raise Interrupted(signum)

    def _save(self) -> None:
        assert self._last is not None
        path = self._folder / f"round-{self._last.completed:08d}.safetensors"
        try:
            save(path, self._last, self._identity)
        except (OSError, SafetensorError) as error:
            _say(f"cannot save {path}: {error}; the run goes on without")
        else:
            self._saved = self._last.completed
            for old in self._files()[:-KEPT]:
                old.unlink()
        self._saved_at = self._clock()

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("round-*.safetensors"))


class Attempts:
    """How often a cell was started, and where it failed; belongs to one identity like a checkpoint."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]):
        self._path = folder / "attempts.json"
        self._record: dict[str, Any] = {
            "identity": json.loads(json.dumps(identity)),
            "started": 0,
            "failures": [],
        }
        try:
            found = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return
        if found.get("identity") == self._record["identity"]:
            self._record = found

    def begin(self) -> int:
        """Count a start; returns the number of starts so far.

        Raises
        ------
        FedreproError
            If the last two attempts failed after the same round: a third would as well.
        """
        failures = self._record["failures"][-2:]
        if len(failures) == 2 and failures[0]["completed"] == failures[1]["completed"]:
            raise FedreproError(
                f"this cell failed twice after round {failures[1]['completed']}, so it is not tried again: "
                f"{failures[1]['error']}. Once the cause is mended, delete {self._path}"
            )
        self._record["started"] += 1
        self._write()
        return int(self._record["started"])

    def failed(self, completed: int, error: BaseException) -> None:
        """Remember a failure."""
        text = f"{type(error).__name__}: {error}"
        self._record["failures"].append({"completed": completed, "error": text})
        self._write()

    def _write(self) -> None:
        write_all({self._path: (json.dumps(self._record, indent=1) + "\n").encode()})


def save(path: Path, snapshot: Snapshot, identity: Mapping[str, Any]) -> None:
    """Write a checkpoint: a temporary file, flushed to disk, then renamed."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in snapshot.state.items()}
    header = {
        "identity": identity,
        "completed": snapshot.completed,
        "rows": snapshot.rows,
        "sha256": _digest(tensors),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    try:
        save_file(tensors, temporary, metadata={"fedrepro": json.dumps(header)})
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path, identity: Mapping[str, Any], device: str = "cpu") -> Snapshot:
    """Read a checkpoint.

    Raises
    ------
    FedreproError
        If it is truncated or damaged, or of another cell, code, input or environment.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["fedrepro"])
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FedreproError(f"{path} is not a whole checkpoint ({error})") from error
    for name, value in identity.items():
        if header["identity"].get(name) != value:
            raise FedreproError(f"{path} is foreign: it was made with another {name}")
    if header["sha256"] != _digest(tensors):
        raise FedreproError(f"{path} is damaged: its content does not have its checksum")
    state = {name: value.to(device) for name, value in tensors.items()}
    return Snapshot(header["completed"], state, header["rows"])


def _digest(tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
