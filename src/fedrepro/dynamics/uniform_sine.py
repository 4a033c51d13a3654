"""Sine availability with one p for all clients: p_i^t = p [gamma sin(2 pi t / P) + (1 - gamma)].

(FedSWE paper, Section 4, Fig. 3, with P = 20. A client without images, of base probability 0, stays out.)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core.availability import sine


@dataclass(frozen=True)
class Params:
    """``p`` of every client; ``gamma``: degree of non-stationarity; ``period`` P in rounds."""

    p: Annotated[float, Ge(0), Le(1)] = 0.5
    gamma: Annotated[float, Ge(0), Le(1)] = 0.3
    period: Annotated[int, Ge(2)] = 20


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unclipped p_i^t for base probabilities (m,) and rounds (T,), shape (T, m)."""
    common = np.where(base > 0, params.p, 0.0)
    return sine(t, params.period, params.gamma)[:, None] * common
