"""Zero-sum participation with power-law payoffs (IncentFedAvg paper, Section 5.3).

``a_i = 1 - alpha_i S^-beta_i`` with ``S = sum_j N_j``, and every client's cost is what the others are paid:
``l_i = sum_{j != i} a_j - a_i``. With ``g_i = alpha_i beta_i S^(-beta_i - 1) > 0``, client i climbs where
``g_i > sum_{j != i} g_j``, which holds for at most one client at a time. The losses are neither convex in a
client's own choice nor is F monotone: no lemma of the paper covers this game.

``competitors: mean`` is no game of the paper: a client's cost is the mean of the others' payoffs, and several
may climb.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray

from fedrepro.errors import FedreproError

CITATION = "Maleki, Raghavan, Yousefian, Incentive-Aware Federated Averaging, Section 5.3"
AFFINE = False

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``alpha``, ``beta``: of every client's payoff. ``competitors``: how the others' payoffs cost."""

    alpha: tuple[Annotated[float, Gt(0)], ...] = (1.0, 1.0, 1.0, 1.0, 1.0)
    beta: tuple[Annotated[float, Gt(0), Le(1)], ...] = (0.2, 0.4, 0.4, 0.4, 0.25)
    competitors: Literal["sum", "mean"] = "sum"


class Coefficients(NamedTuple):
    """``alpha``, ``beta``: (m,). ``rival``: what one other client's payoff costs, 1 or 1 / (m - 1)."""

    alpha: Floats
    beta: Floats
    rival: float


def coefficients(params: Params, clients: int, seed: int) -> Coefficients:
    """As given; nothing is drawn."""
    rival = 1.0 if params.competitors == "sum" else 1.0 / max(clients - 1, 1)
    return Coefficients(np.array(params.alpha), np.array(params.beta), rival)


def payoffs(c: Coefficients, n: Floats) -> Floats:
    """a_i at profiles (..., m); minus infinity where all are at zero."""
    with np.errstate(divide="ignore"):
        return 1 - c.alpha * n.sum(axis=-1, keepdims=True) ** -c.beta


def losses(c: Coefficients, n: Floats) -> Floats:
    """l_i; not a number where all are at zero."""
    with np.errstate(invalid="ignore"):
        return _others(c, payoffs(c, n))


def marginals(c: Coefficients, n: Floats) -> Floats:
    """F_i."""
    return _others(c, c.alpha * c.beta * _total(n) ** (-c.beta - 1))


def jacobian(c: Coefficients, n: Floats) -> Floats:
    """Every column alike, since F depends on the sum only."""
    slope = -c.alpha * c.beta * (c.beta + 1) * _total(n) ** (-c.beta - 2)
    return np.repeat(_others(c, slope)[:, None], len(n), axis=1)


def _others(c: Coefficients, values: Floats) -> Floats:
    """``rival`` times the sum of the others' values, minus the own one."""
    return c.rival * (values.sum(axis=-1, keepdims=True) - values) - values


def _total(n: Floats) -> Floats:
    total = n.sum(axis=-1, keepdims=True)
    if (total <= 0).any():
        raise FedreproError(
            "game zero_sum: all clients are at zero, where the payoffs are not defined; raise "
            "participation.lower or lower participation.step_size"
        )
    return total
