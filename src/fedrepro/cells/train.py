"""Cells of kind ``train``: one federated training run of one algorithm, data set, dynamics and seed."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch

from fedrepro.core import engine, numerics, registry
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.cohort import suited_phase
from fedrepro.core.data import tensors
from fedrepro.core.game import Game, contributions
from fedrepro.core.job import Artifact, Context, Inputs, Result, bind
from fedrepro.core.model import build_model
from fedrepro.core.prepared import open_split
from fedrepro.core.spec import TrainSpec
from fedrepro.core.tables import PARTITION, TRACE, TRAIN_METRICS, column, encode, from_rows, read


def load_task(spec: TrainSpec, inputs: Inputs, device: str = "cpu") -> engine.Task:
    """Read the prepared splits, the partition and the trace of a run.

    In a game its course is computed here; a client without images to train on is not available.
    """
    dataset, dtype = registry.load("dataset", spec.dataset), numerics.STORAGE[spec.numerics]
    train, test = (tensors(open_split(inputs[name]), dataset, dtype).to(device) for name in ("train", "test"))
    trace = read(inputs["trace"], TRACE)
    task = engine.Task(
        train=train,
        test=test,
        client=column(read(inputs["partition"], PARTITION), "client"),
        active=_by_round(trace, "active", spec),
        probability=_by_round(trace, "probability", spec),
    )
    if spec.game is None or spec.participation is None:
        return task
    game = Game(*bind("game", spec.game), spec.participation, spec.seed)
    path = contributions(game, spec.participation, spec.rounds)
    return replace(task, active=task.active & (path[:-1] > 0), contributions=path)


def run(spec: TrainSpec, inputs: Inputs, context: Context) -> Result:
    """Train and return ``metrics``; one intra-op thread, so that sums have one order."""
    torch.set_num_threads(1)
    numerics.configure(spec.numerics, context.device)
    task = load_task(spec, inputs, context.device)
    algorithm = Algorithm(*bind("algorithm", spec.algorithm))
    model = build_model(spec)
    phase = suited_phase(model, context.device)
    outcome = engine.run(spec, task, algorithm, model, phase, context.observe, context.keeper)
    content = encode(from_rows(outcome.rows, TRAIN_METRICS))
    return Result({"metrics": Artifact(content, len(outcome.rows))}, outcome.status)


def _by_round(trace: pa.Table, name: str, spec: TrainSpec) -> np.ndarray:
    values = column(trace, name).reshape(spec.partition.clients, spec.rounds)
    return np.ascontiguousarray(values.T)
