"""The one federated loop: every trained number of the project comes out of `run`."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.core import schedule
from fedrepro.core.algorithm import Algorithm, Cohort, State
from fedrepro.core.data import Split
from fedrepro.core.evaluation import consensus_error, evaluate
from fedrepro.core.local import LocalPhase, LocalSteps
from fedrepro.core.minibatches import Sampler, SubsetSampler
from fedrepro.core.model import Model
from fedrepro.core.numerics import STORAGE
from fedrepro.core.rng import stream
from fedrepro.core.spec import TrainSpec

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """The data of a run: both splits, the partition (N,), and the trace and its probabilities (T, m).

    ``contributions``: in a game, how many images N_i each client trains on in rounds 0, ..., T, (T + 1, m).
    """

    train: Split
    test: Split
    client: NDArray[np.int32]
    active: NDArray[np.bool_]
    probability: NDArray[np.float64]
    contributions: NDArray[np.float64] | None = None

    def images(self, t: int, clients: NDArray[np.integer]) -> NDArray[np.float64]:
        """How many images the given clients (K,) count for when round t is averaged."""
        if self.contributions is not None:
            return self.contributions[t + 1, clients]
        return self._held[clients]

    @cached_property
    def _held(self) -> NDArray[np.float64]:
        """Images of each client, shape (m,)."""
        return np.bincount(self.client, minlength=self.active.shape[1]).astype(np.float64)


class Progress(NamedTuple):
    """What an observer is told after a round: completed rounds, and test scores where evaluated."""

    completed: int
    rounds: int
    test: dict[str, float]


class Snapshot(NamedTuple):
    """All that a run needs to go on: completed rounds, the algorithm's state, and the rows so far."""

    completed: int
    state: State
    rows: list[Row]


class Keeper(Protocol):
    """Keeps a run's last committed state, so that an interrupted run can go on from there."""

    def restore(self) -> Snapshot | None:
        """Where an earlier attempt stopped; None for a fresh start."""

    def commit(self) -> AbstractContextManager[None]:
        """A section that an interruption waits for."""

    def committed(self, snapshot: Snapshot) -> None:
        """Take note of a committed state, whose tensors will change in the next commit only."""


class NoKeeper:
    """For runs that start over when they are interrupted."""

    def restore(self) -> Snapshot | None:
        """See `Keeper`."""
        return None

    def commit(self) -> AbstractContextManager[None]:
        """See `Keeper`."""
        return nullcontext()

    def committed(self, snapshot: Snapshot) -> None:
        """See `Keeper`."""


class Outcome(NamedTuple):
    """Rows of ``metrics.parquet``, and ``diverged`` where weights or loss stopped being finite."""

    rows: list[Row]
    status: Literal["ok", "diverged"]


def run(
    spec: TrainSpec,
    task: Task,
    algorithm: Algorithm,
    model: Model,
    local_phase: LocalPhase,
    observe: Callable[[Progress], None],
    keeper: Keeper | None = None,
) -> Outcome:
    """Train for ``spec.rounds`` rounds; ends early, as ``diverged``, when a number is not finite.

    A round is a pure local phase followed by a short commit that alone changes state. Randomness is keyed by
    the round, so that a run which goes on from a snapshot ends as if it had never stopped.
    """
    keeper = keeper or NoKeeper()
    completed, state, rows = keeper.restore() or _start(spec, task, algorithm, model)
    recorder = _Recorder(spec, task, algorithm, model, rows)
    sampler = sampler_of(spec, task)
    while True:
        observe(Progress(completed, spec.rounds, recorder.record(state, completed)))
        if not (recorder.finite and torch.isfinite(state["server"]).all()):
            return Outcome(rows, "diverged")
        if completed == spec.rounds:
            return Outcome(rows, "ok")
        cohort, delta = updates(spec, task, algorithm, model, local_phase, sampler, state, completed)
        with keeper.commit():
            algorithm.round(state, cohort, delta)
            completed += 1
            keeper.committed(Snapshot(completed, state, rows))


def sampler_of(spec: TrainSpec, task: Task) -> Sampler:
    """What draws the minibatches: in a game, from a subset of every client's images."""
    if task.contributions is None:
        return Sampler(task.client, task.active, spec)
    return SubsetSampler(task.client, task.active, task.contributions[:-1], spec)


def _start(spec: TrainSpec, task: Task, algorithm: Algorithm, model: Model) -> Snapshot:
    server = model.initial(spec.seed, spec.dataset, STORAGE[spec.numerics]).to(task.train.images.device)
    return Snapshot(0, algorithm.init(server, spec.partition.clients), [])


def updates(
    spec: TrainSpec,
    task: Task,
    algorithm: Algorithm,
    model: Model,
    local_phase: LocalPhase,
    sampler: Sampler,
    state: State,
    t: int,
) -> tuple[Cohort, Tensor]:
    """The local phase of round t: the cohort that trained, and its updates (K, d)."""
    cohort = algorithm.select(state, _available(spec, task, t, state["server"].device))
    start = algorithm.start(state, cohort)
    work = LocalSteps(
        start,
        sampler.draw(cohort.clients.cpu().numpy(), t),
        cohort.local_lr,
        spec.clip_norm if spec.clip == "local_grad" else None,
        spec.crop,
    )
    return cohort, local_phase(model, task.train, work) - start


def _available(spec: TrainSpec, task: Task, t: int, device: torch.device) -> Cohort:
    clients = np.flatnonzero(task.active[t])
    tiebreak = stream(spec.seed, "select", spec.dataset, t).random(spec.partition.clients)
    return Cohort(
        t=t,
        clients=torch.from_numpy(clients).to(device),
        probability=torch.from_numpy(task.probability[t, clients]).to(device),
        tiebreak=torch.from_numpy(tiebreak[clients]).to(device),
        images=torch.from_numpy(task.images(t, clients)).to(device),
        total=spec.partition.clients,
        local_lr=schedule.local_lr(spec, t),
        global_lr=spec.global_lr,
    )


class _Recorder:
    """Evaluates on schedule and adds to the rows of ``metrics.parquet``."""

    def __init__(self, spec: TrainSpec, task: Task, algorithm: Algorithm, model: Model, rows: list[Row]):
        self._task, self._algorithm, self._model = task, algorithm, model
        self._splits = {"train": task.train, "test": task.test}
        self._due = {
            name: set(schedule.evaluation_rounds(spec.rounds, spec.evaluation, name)) for name in self._splits
        }
        self._rows = rows

    @property
    def finite(self) -> bool:
        """Whether the losses of the last evaluation are finite."""
        last = [row["loss"] for row in self._rows if row["round"] == self._rows[-1]["round"]]
        return all(map(math.isfinite, last))

    def record(self, state: State, completed: int) -> dict[str, float]:
        """Evaluate what is due after ``completed`` rounds; returns test accuracy by model."""
        due = [name for name, rounds in self._due.items() if completed in rounds]
        if not due or (self._rows and self._rows[-1]["round"] == completed):
            return {}
        consensus = consensus_error(state["local"]) if "local" in state else None
        active = int(self._task.active[completed - 1].sum()) if completed else 0
        rows: list[Row] = []
        for name, weights in self._algorithm.models(state).items():
            for split in due:
                score = evaluate(self._model, weights, self._splits[split])
                row = {"round": completed, "evaluated": name, "split": split, "loss": score.loss}
                rows.append(
                    row | {"accuracy": score.accuracy, "consensus_error": consensus, "active": active}
                )
        self._rows += rows
        return {row["evaluated"]: row["accuracy"] for row in rows if row["split"] == "test"}
