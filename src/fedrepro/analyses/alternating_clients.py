"""Two clients that are never active together, under FedSWE (FedSWE paper, Fig. 5 and Proposition 17).

``F_i(x) = (x - u_i)^2 / 2`` with u = (100, -100); client 0 is active in even rounds, client 1 in odd ones.
The algorithm's own plugin runs with exact gradients and s local steps, at a constant and at a decaying step
size.

At a constant step the models end in a 2-cycle ``+-a``. With ``c = 1 - (1 - eta)^s`` and an echo of 2, the
update ``(1 + k) a = a + 2 c (U - a) - k a`` gives ``a = U c / (k + c)``, for u = (U, -U): U for k = 0, which
is (30), and ``100 c / (1 + c)``, not 0, for k = 1.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
import torch
from annotated_types import Gt, Lt
from numpy.typing import NDArray

from fedrepro.core import quadratics
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.evaluation import consensus_error
from fedrepro.core.job import Inputs, bind
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("algorithm", "rounds")
SCHEMA = pa.schema(
    {
        "schedule": pa.string(),  # constant or decaying
        "round": pa.int32(),  # completed rounds
        "step_size": pa.float64(),  # of the last round
        "gradient": pa.float64(),  # F'(x) at the server's model
        "consensus_error": pa.float64(),  # mean squared distance of the clients' models from their mean
    }
)
CLIENTS = 2
EARLY = 20  # every one of these first rounds is recorded


@dataclass(frozen=True)
class Params:
    """``start``: x^0. ``half_gap``: U. ``step_size``: the constant eta. ``local_steps``: s.

    ``decay_from / (1 + t / decay_rounds)``: the decaying step size. ``records``: about how many pairs of
    rounds are recorded.
    """

    start: float = 50.0
    half_gap: Annotated[float, Gt(0)] = 100.0
    step_size: Annotated[float, Gt(0), Lt(1)] = 0.001
    local_steps: Count = 1
    decay_from: Annotated[float, Gt(0), Lt(1)] = 0.05
    decay_rounds: Annotated[float, Gt(0)] = 100.0
    records: Count = 150


def step_sizes(params: Params, rounds: int) -> NDArray[np.float64]:
    """Constant and decaying step size of every round, shape (T, 2)."""
    decaying = params.decay_from / (1 + np.arange(rounds) / params.decay_rounds)
    return np.stack([np.full(rounds, params.step_size), decaying], axis=1)


def recorded(params: Params, rounds: int) -> set[int]:
    """Completed rounds that are recorded: the first ones, then pairs of neighbours, up to the last two."""
    spaced = np.unique(np.geomspace(EARLY, rounds - 1, params.records).astype(int))
    return set(range(1, EARLY + 1)) | {int(t) + i for t in spaced for i in (0, 1)}


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per schedule and recorded round."""
    assert spec.algorithm and spec.rounds
    algorithm = Algorithm(*bind("algorithm", spec.algorithm))
    steps = step_sizes(params, spec.rounds)
    minima = torch.tensor([[1.0], [-1.0]], dtype=torch.float64) * params.half_gap
    active = np.arange(spec.rounds)[:, None] % CLIENTS == np.arange(CLIENTS)
    start = torch.full((steps.shape[1],), params.start, dtype=torch.float64)
    states = quadratics.run(algorithm, minima, active, torch.from_numpy(steps), start, params.local_steps)
    kept = recorded(params, spec.rounds)
    rows = []
    for completed, state in enumerate(states, start=1):
        if completed not in kept:
            continue
        for column, schedule in enumerate(("constant", "decaying")):
            rows.append(
                {
                    "schedule": schedule,
                    "round": completed,
                    "step_size": steps[completed - 1, column],
                    "gradient": float(state["server"][column]),  # F'(x) = x - (u_1 + u_2) / 2 = x
                    "consensus_error": consensus_error(state["local"][:, column : column + 1]),
                }
            )
    return pa.Table.from_pylist(rows, schema=SCHEMA)
