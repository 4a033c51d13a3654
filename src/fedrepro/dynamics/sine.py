"""Sine availability: f(t) = gamma sin(2 pi t / P) + (1 - gamma).

(FedSWE paper, appendix H.2, with gamma = 0.3 and P = 20.)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core.availability import sine


@dataclass(frozen=True)
class Params:
    """``gamma``: degree of non-stationarity; ``period`` P in rounds."""

    gamma: Annotated[float, Ge(0), Le(1)] = 0.3
    period: Annotated[int, Ge(2)] = 20


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unclipped p_i^t for base probabilities (m,) and rounds (T,), shape (T, m)."""
    return sine(t, params.period, params.gamma)[:, None] * base
