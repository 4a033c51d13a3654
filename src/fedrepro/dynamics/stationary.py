"""Stationary availability: f(t) = 1 (FedSWE paper, appendix H.2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Params:
    """No parameters."""


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unclipped p_i^t for base probabilities (m,) and rounds (T,), shape (T, m)."""
    return np.tile(base, (len(t), 1))
