"""The one federated loop: every trained number of the project comes out of `run`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.core import schedule
from fedrepro.core.algorithm import Algorithm, Cohort, State
from fedrepro.core.data import Split
from fedrepro.core.evaluation import consensus_error, evaluate
from fedrepro.core.local import LocalSteps
from fedrepro.core.model import Model
from fedrepro.core.rng import stream
from fedrepro.core.spec import TrainSpec
from fedrepro.core.tables import TRAIN_METRICS

DTYPES = {"fp32": torch.float32, "fp64": torch.float64}
LocalPhase = Callable[[Model, Split, LocalSteps], Tensor]


@dataclass(frozen=True)
class Task:
    """The data of a run: both splits, the partition (N,), and the trace and its probabilities (T, m)."""

    train: Split
    test: Split
    client: NDArray[np.int32]
    active: NDArray[np.bool_]
    probability: NDArray[np.float64]


class Progress(NamedTuple):
    """What an observer is told after a round: completed rounds, and test scores where evaluated."""

    completed: int
    rounds: int
    test: dict[str, float]


class Outcome(NamedTuple):
    """Metrics of a run, and ``diverged`` where weights or loss stopped being finite."""

    metrics: pa.Table
    status: Literal["ok", "diverged"]


def run(
    spec: TrainSpec,
    task: Task,
    algorithm: Algorithm,
    model: Model,
    local_phase: LocalPhase,
    observe: Callable[[Progress], None],
) -> Outcome:
    """Train for ``spec.rounds`` rounds; ends early, as ``diverged``, when a number is not finite.

    A round is a pure local phase followed by a short commit that alone changes state.
    """
    server = model.initial(spec.seed, spec.dataset, DTYPES[spec.numerics]).to(task.train.images.device)
    state = algorithm.init(server, spec.partition.clients)
    recorder = _Recorder(spec, task, algorithm, model)
    batches = schedule.Batches(task.client, task.active, spec)
    observe(Progress(0, spec.rounds, recorder.record(state, 0)))
    for t in range(spec.rounds):
        cohort = algorithm.select(state, _cohort(spec, task, t, server.device))
        start = algorithm.start(state, cohort)
        work = LocalSteps(
            start,
            [batches.of(client, t) for client in cohort.clients.tolist()],
            cohort.local_lr,
            spec.clip_norm if spec.clip == "local_grad" else None,
        )
        delta = local_phase(model, task.train, work) - start
        algorithm.round(state, cohort, delta)
        test = recorder.record(state, t + 1)
        observe(Progress(t + 1, spec.rounds, test))
        if not (torch.isfinite(state["server"]).all() and recorder.finite):
            return Outcome(recorder.table(), "diverged")
    return Outcome(recorder.table(), "ok")


def _cohort(spec: TrainSpec, task: Task, t: int, device: torch.device) -> Cohort:
    clients = np.flatnonzero(task.active[t])
    tiebreak = stream(spec.seed, "select", spec.dataset, t).random(spec.partition.clients)
    return Cohort(
        t=t,
        clients=torch.from_numpy(clients).to(device),
        probability=torch.from_numpy(task.probability[t, clients]).to(device),
        tiebreak=torch.from_numpy(tiebreak[clients]).to(device),
        total=spec.partition.clients,
        local_lr=schedule.local_lr(spec, t),
        global_lr=spec.global_lr,
    )


class _Recorder:
    """Evaluates on schedule and collects the rows of ``metrics.parquet``."""

    def __init__(self, spec: TrainSpec, task: Task, algorithm: Algorithm, model: Model):
        self._task, self._algorithm, self._model = task, algorithm, model
        self._splits = {"train": task.train, "test": task.test}
        self._due = {
            name: set(schedule.evaluation_rounds(spec.rounds, spec.evaluation, name)) for name in self._splits
        }
        self._rows: list[dict[str, Any]] = []
        self.finite = True  # whether every loss so far was

    def record(self, state: State, completed: int) -> dict[str, float]:
        """Evaluate what is due after ``completed`` rounds; returns test accuracy by model."""
        due = [name for name, rounds in self._due.items() if completed in rounds]
        if not due:
            return {}
        consensus = consensus_error(state["local"]) if "local" in state else None
        active = int(self._task.active[completed - 1].sum()) if completed else 0
        test = {}
        for name, weights in self._algorithm.models(state).items():
            for split in due:
                score = evaluate(self._model, weights, self._splits[split])
                row = {"round": completed, "evaluated": name, "split": split, "loss": score.loss}
                row |= {"accuracy": score.accuracy, "consensus_error": consensus, "active": active}
                self._rows.append(row)
                self.finite = self.finite and math.isfinite(score.loss)
                if split == "test":
                    test[name] = score.accuracy
        return test

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, schema=TRAIN_METRICS)
