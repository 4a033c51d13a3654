"""Random discovery without regulariser, and a welfare loss to select with (IncentFedAvg paper, 2.2 and 5.2).

``F_i = theta_i - ||q_i||^2`` is constant: a merely monotone game, in which client i goes to its upper bound
where F_i < 0, to its lower one where F_i > 0, and is indifferent where F_i = 0. Welfare loss:
``h(N) = log(1 + exp(sum_i N_i))``, which grows with every N_i.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray

from fedrepro.core import discovery
from fedrepro.core.discovery import Discovery, draw

CITATION = "Maleki, Raghavan, Yousefian, Incentive-Aware Federated Averaging, Sections 2.2 and 5.2"
AFFINE = True

Floats = NDArray[np.float64]
losses = discovery.losses


@dataclass(frozen=True)
class Params:
    """``concentration`` of the Dirichlet q_i over ten classes.

    ``cost_share``: theta_i / ||q_i||^2 of every client, at most ``highest_cost``; empty: drawn uniformly.
    ``highest_cost``: 1 in the paper, with which no client gains by leaving.
    """

    concentration: Annotated[float, Gt(0)] = 10.0
    cost_share: tuple[Annotated[float, Ge(0)], ...] = ()
    highest_cost: Annotated[float, Ge(0)] = 1.0

    def __post_init__(self) -> None:
        """Costs stay in the range that is asked for."""
        if any(share > self.highest_cost for share in self.cost_share):
            raise ValueError(
                f"cost_share: theta_i / ||q_i||^2 must lie in [0, highest_cost = {self.highest_cost}]; the "
                "paper's range is [0, 1], a larger highest_cost leaves it"
            )


def coefficients(params: Params, clients: int, seed: int) -> Discovery:
    """Draw q and theta."""
    return draw(clients, seed, params.concentration, params.cost_share, params.highest_cost)


def marginals(c: Discovery, n: Floats) -> Floats:
    """F_i, the same at every profile."""
    return c.marginals + np.zeros_like(n)  # much faster than np.broadcast_to


def jacobian(c: Discovery, n: Floats) -> Floats:
    """Zero."""
    return np.zeros((len(n), len(n)))


def equilibria(c: Discovery, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """A face of the box; its low corner minimises the welfare loss."""
    return np.where(c.marginals < 0, upper, lower), np.where(c.marginals > 0, lower, upper)


def welfare(c: Discovery, n: Floats) -> Floats:
    """h, shape (...); stable for sums of tens of thousands."""
    return np.logaddexp(0.0, n.sum(axis=-1))


def welfare_gradient(c: Discovery, n: Floats) -> Floats:
    """``1 / (1 + exp(-sum_i N_i))`` for every client; the sum is not negative."""
    return 1 / (1 + np.exp(-n.sum(axis=-1, keepdims=True))) + np.zeros_like(n)
