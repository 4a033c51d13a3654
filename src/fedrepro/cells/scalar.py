"""Cells of kind ``scalar``: FedAvg with partial participation on a scalar problem, many trials."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedrepro.core.job import Artifact, Context, Inputs, Result, bind
from fedrepro.core.problem import Problem
from fedrepro.core.scalar import Simulation, key, simulate
from fedrepro.core.schedule import FIRST_TRIALS, recorded_rounds
from fedrepro.core.spec import ScalarSpec
from fedrepro.core.tables import SCALAR_METRICS, encode

Floats = NDArray[np.float64]


def run(spec: ScalarSpec, inputs: Inputs, context: Context) -> Result:
    """Simulate; averages of every recorded round, then single trials of the last round and of paths."""
    problem = Problem(*bind("problem", spec.problem))
    rounds = recorded_rounds(spec)
    work = Simulation(
        start=problem.start,
        offsets=problem.offsets,
        sampled=spec.sampled,
        local_steps=spec.local_steps,
        step_sizes=step_sizes(spec),
        records=rounds,
        trials=spec.trials,
        key=key(spec.seed, spec.problem.name),
    )
    x = simulate(problem.plugin.step, spec.problem.name, work, context.threads)
    gap, squared = problem.value(x) - problem.minimum, problem.gradient(x) ** 2
    parts = [_averages(rounds, gap[:n], squared[:n]) for n in sorted({FIRST_TRIALS, spec.trials})]
    parts = parts if spec.trials > FIRST_TRIALS else parts[:1]
    parts.append(_single(rounds[-1:], gap[:, -1:], squared[:, -1:]))
    parts.append(_single(rounds[:-1], gap[: spec.paths, :-1], squared[: spec.paths, :-1]))
    table = pa.concat_tables(parts)
    status = "ok" if np.isfinite(x).all() else "diverged"
    return Result({"metrics": Artifact(encode(table), len(table))}, status)


def step_sizes(spec: ScalarSpec) -> Floats:
    """alpha_t of every round, shape (T,)."""
    alpha = spec.step_size / (spec.local_steps if spec.step_size_of == "round" else 1)
    return alpha * (1 + np.arange(spec.rounds) / spec.decay_rounds) ** -spec.decay_power


def _averages(rounds: NDArray[np.int64], gap: Floats, squared: Floats) -> pa.Table:
    """Mean and standard error over trials, one row a recorded round."""
    trials = len(gap)
    columns = {
        "round": rounds,
        "trials": np.full(len(rounds), trials),
        "trial": pa.nulls(len(rounds), pa.int32()),
        "gap": gap.mean(0),
        "gap_se": gap.std(0, ddof=1) / np.sqrt(trials),
        "squared_gradient": squared.mean(0),
        "squared_gradient_se": squared.std(0, ddof=1) / np.sqrt(trials),
    }
    return pa.table(columns).cast(SCALAR_METRICS)


def _single(rounds: NDArray[np.int64], gap: Floats, squared: Floats) -> pa.Table:
    """One row per trial and round."""
    trials, records = gap.shape
    columns = {
        "round": np.tile(rounds, trials),
        "trials": np.ones(trials * records, np.int32),
        "trial": np.repeat(np.arange(trials), records),
        "gap": gap.ravel(),
        "gap_se": pa.nulls(trials * records, pa.float64()),
        "squared_gradient": squared.ravel(),
        "squared_gradient_se": pa.nulls(trials * records, pa.float64()),
    }
    return pa.table(columns).cast(SCALAR_METRICS)
