"""Sine availability with silences: the sine's p_i^t, but 0 where that is below a threshold.

(The interleaved sine of the conference version of the FedSWE paper, threshold 0.1.)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core.availability import sine


@dataclass(frozen=True)
class Params:
    """``gamma``: degree of non-stationarity; ``period`` P in rounds; ``threshold`` of p_i^t."""

    gamma: Annotated[float, Ge(0), Le(1)] = 0.3
    period: Annotated[int, Ge(2)] = 20
    threshold: Annotated[float, Ge(0), Le(1)] = 0.1


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unclipped p_i^t for base probabilities (m,) and rounds (T,), shape (T, m)."""
    value = sine(t, params.period, params.gamma)[:, None] * base
    return np.where(value < params.threshold, 0.0, value)
