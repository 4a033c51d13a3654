"""Staircase availability: f(t) = 1 in the first half of each period, ``low`` in the second.

(FedSWE paper, appendix H.2, with period 20 and low 0.4.)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core.availability import staircase


@dataclass(frozen=True)
class Params:
    """``period`` P in rounds; ``low``: the factor of the second half-period."""

    period: Annotated[int, Ge(2)] = 20
    low: Annotated[float, Ge(0), Le(1)] = 0.4


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unclipped p_i^t for base probabilities (m,) and rounds (T,), shape (T, m)."""
    return staircase(t, params.period, params.low)[:, None] * base
