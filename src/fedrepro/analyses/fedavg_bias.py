"""What FedAvg over active clients converges to on average, with two unequal clients (FedSWE paper, Fig. 2).

Clients with F_i(x) = (x - u_i)^2 / 2 are active independently with probabilities p_1, p_2. A round with a
nonempty active set A moves the server a fixed part of the way to the mean of u_i over A, an empty round not
at all. The recursion is linear, so that the mean in the long run is, at every constant step size in (0, 2),
``E[mean of u_i over A | A nonempty]``; for u = (0, 100) that is
``100 p_2 (1 - p_1 / 2) / (p_1 + p_2 - p_1 p_2)``.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray

from fedrepro.core.job import Inputs
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("rounds",)
SCHEMA = pa.schema(
    {
        "p1": pa.float64(),
        "p2": pa.float64(),
        "step_size": pa.float64(),
        "expected": pa.float64(),  # closed form
        "simulated": pa.float64(),  # mean of the server's model over the last rounds, then over trials
        "simulated_se": pa.float64(),  # standard error over trials
    }
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """What is varied and simulated.

    ``points``: p_1 and p_2 each take the values 1/points, 2/points, ..., 1. ``minima``: u_1, u_2.
    ``step_sizes``: of the one local step. ``burn_in``: the share of rounds that are not averaged over.
    """

    points: Count = 20
    minima: tuple[float, float] = (0.0, 100.0)
    step_sizes: tuple[Annotated[float, Gt(0), Lt(2)], ...] = (0.1, 1.0)
    trials: Annotated[int, Ge(2)] = 100
    burn_in: Annotated[float, Ge(0), Lt(1)] = 0.5


def expected_output(p1: Floats, p2: Floats, minima: tuple[float, float]) -> Floats:
    """Mean of u_i over the active set, given that it is not empty."""
    first, second = minima
    both = p1 * p2
    total = p1 * (1 - p2) * first + (1 - p1) * p2 * second + both * (first + second) / 2
    return np.asarray(total / (p1 + p2 - both))


def simulate(params: Params, p1: Floats, p2: Floats, rounds: int, rng: np.random.Generator) -> Floats:
    """Average of the server's model after the burn-in, from the mean of u; shape (steps, pairs, trials)."""
    first, second = params.minima
    step = np.asarray(params.step_sizes)[:, None, None]
    x = np.full((len(params.step_sizes), len(p1), params.trials), (first + second) / 2)
    total = np.zeros_like(x)
    first_averaged = int(rounds * params.burn_in)
    for t in range(rounds):
        one, two = rng.random((2, *x.shape[1:]))
        a, b = one < p1[:, None], two < p2[:, None]
        target = (a * first + b * second) / np.maximum(a.astype(int) + b, 1)
        x += (a | b) * step * (target - x)
        if t >= first_averaged:
            total += x
    return total / (rounds - first_averaged)


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per step size and pair of probabilities; the step sizes share their random numbers."""
    assert spec.rounds
    grid = np.arange(1, params.points + 1) / params.points
    p1, p2 = (axis.ravel() for axis in np.meshgrid(grid, grid, indexing="ij"))
    ends = simulate(params, p1, p2, spec.rounds, stream(spec.seed, "trace", ""))
    count = len(params.step_sizes)
    columns = {
        "p1": np.tile(p1, count),
        "p2": np.tile(p2, count),
        "step_size": np.repeat(params.step_sizes, len(p1)),
        "expected": np.tile(expected_output(p1, p2, params.minima), count),
        "simulated": ends.mean(2).ravel(),
        "simulated_se": ends.std(2, ddof=1).ravel() / np.sqrt(params.trials),
    }
    return pa.table(columns)
