"""Random discovery, regularised: a strongly monotone game with one equilibrium (IncentFedAvg paper, 5.1).

``l_i = theta_i N_i - q_i Q^T N + (lambda / 2) N_i^2``, so ``F_i = theta_i - ||q_i||^2 + lambda N_i``,
``mu_F = L_F = lambda`` and ``N_i* = clip((||q_i||^2 - theta_i) / lambda, N_min, N_max_i)``.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray

from fedrepro.core.discovery import Discovery, draw
from fedrepro.core.discovery import losses as without_regularisation

CITATION = "Maleki, Raghavan, Yousefian, Incentive-Aware Federated Averaging, Sections 2.1 and 5.1"
AFFINE = True

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``regularisation``: lambda. ``concentration`` of the Dirichlet q_i over ten classes.

    ``cost_share``: theta_i / ||q_i||^2 of every client, from 0 to 1; empty: drawn uniformly.
    """

    regularisation: Annotated[float, Gt(0)] = 1e-5
    concentration: Annotated[float, Gt(0)] = 10.0
    cost_share: tuple[Annotated[float, Ge(0)], ...] = ()

    def __post_init__(self) -> None:
        """Costs stay in the paper's range."""
        if any(share > 1 for share in self.cost_share):
            raise ValueError("cost_share: theta_i / ||q_i||^2 must lie in [0, 1], the paper's range")


class Coefficients(NamedTuple):
    """Payoffs and costs, and lambda."""

    discovery: Discovery
    regularisation: float


def coefficients(params: Params, clients: int, seed: int) -> Coefficients:
    """Draw q and theta."""
    drawn = draw(clients, seed, params.concentration, params.cost_share, 1.0)
    return Coefficients(drawn, params.regularisation)


def losses(c: Coefficients, n: Floats) -> Floats:
    """l_i."""
    return without_regularisation(c.discovery, n) + c.regularisation / 2 * n**2


def marginals(c: Coefficients, n: Floats) -> Floats:
    """F_i."""
    return c.discovery.marginals + c.regularisation * n


def jacobian(c: Coefficients, n: Floats) -> Floats:
    """The identity times lambda."""
    return c.regularisation * np.eye(len(n))


def equilibria(c: Coefficients, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The one equilibrium, twice."""
    found = np.clip(-c.discovery.marginals / c.regularisation, lower, upper)
    return found, found
