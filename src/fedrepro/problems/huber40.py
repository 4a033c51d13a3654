"""Forty Huber objectives at random offsets (partial-participation paper, problem (27) and Table II).

``f_i`` is the Huber function of ``x - d_i``; d_1 = d_2 = 0, the others uniform on [0, d_max]. The oracle errs
by ``+- sqrt(f_i(x) - f_i*)``, so that C = 1 and D = 0.

The offsets are those of the paper's own instance: scaled draws of NumPy's legacy generator with seed 42,
which give all four published values of sigma_f* to the printed digit.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Gt
from numba import njit
from numpy.typing import NDArray

CITATION = "Wang et al., On Federated Averaging with Partial Participation, arXiv:2611.14239, Section IV-B"
CLIENTS = 40
L = 1.0
C = 1.0
D = 0.0
INSTANCE_SEED = 42

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``d_max``: the largest offset; ``start``: x_0 minus the minimiser."""

    d_max: Annotated[float, Gt(0)] = 100.0
    start: float = 10.0


def offsets(params: Params) -> Floats:
    """The minimiser d_i of every client, shape (40,)."""
    drawn = np.random.RandomState(INSTANCE_SEED).uniform(0, 1, CLIENTS - 2)
    return np.concatenate([[0.0, 0.0], params.d_max * drawn])


@njit(inline="always")
def step(x, offset):  # type: ignore[no-untyped-def]
    """Derivative g = clip(u, -1, 1) and oracle deviation; u = x - d, and the Huber value is g (u - g/2)."""
    u = x - offset
    g = min(max(u, -1.0), 1.0)
    return g, np.sqrt(g * (u - 0.5 * g))


def values(x: Floats, offset: Floats) -> Floats:
    """f_i(x), broadcast over both arguments."""
    u = np.abs(x - offset)
    return np.where(u < 1, u**2 / 2, u - 0.5)


def gradients(x: Floats, offset: Floats) -> Floats:
    """f_i'(x), broadcast over both arguments."""
    return np.clip(x - offset, -1, 1)


def variances(x: Floats, offset: Floats) -> Floats:
    """Variance of the oracle of client i at x, broadcast over both arguments."""
    return values(x, offset)


def start(params: Params, minimiser: float) -> float:
    """x_0."""
    return minimiser + params.start
