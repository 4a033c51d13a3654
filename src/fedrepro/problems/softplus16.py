"""One Huber and fifteen softplus objectives (partial-participation paper, problem (25) and Fig. 1).

``f_1`` is the Huber function of x; ``f_i(x) = ln(1 + exp(x - i + 1))`` for i = 2, ..., 16. The oracle errs by
``+- sqrt(|x|)`` at client 1 and by ``+- sqrt(f_i(x))`` elsewhere, equation (26): C = 1 and D = 1/2.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

CITATION = "Wang et al., On Federated Averaging with Partial Participation, arXiv:2611.14239, Section IV-A"
CLIENTS = 16
L = 1.0
C = 1.0
D = 0.5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``start``: x_0."""

    start: float = 10.0


def offsets(params: Params) -> Floats:
    """The shift i - 1 of client i, shape (16,): 0 marks the Huber client."""
    return np.arange(float(CLIENTS))


@njit(inline="always")
def step(x, offset):  # type: ignore[no-untyped-def]
    """Derivative and oracle deviation of one client."""
    if offset == 0.0:
        return min(max(x, -1.0), 1.0), np.sqrt(abs(x))
    u = x - offset
    e = np.exp(-abs(u))  # stable on both sides
    return (1.0 if u >= 0 else e) / (1.0 + e), np.sqrt(max(u, 0.0) + np.log1p(e))


def values(x: Floats, offset: Floats) -> Floats:
    """f_i(x), broadcast over both arguments."""
    huber = np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5)
    return np.where(offset == 0, huber, np.logaddexp(0, x - offset))


def gradients(x: Floats, offset: Floats) -> Floats:
    """f_i'(x), broadcast over both arguments."""
    u = x - offset
    e = np.exp(-np.abs(u))
    return np.where(offset == 0, np.clip(x, -1, 1), np.where(u >= 0, 1.0, e) / (1 + e))


def variances(x: Floats, offset: Floats) -> Floats:
    """Variance of the oracle of client i at x, broadcast over both arguments."""
    return np.where(offset == 0, np.abs(x), values(x, offset))


def start(params: Params, minimiser: float) -> float:
    """x_0."""
    return params.start
