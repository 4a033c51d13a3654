"""Cyclic participation: groups of clients are available in turn, one group a round.

(FedSWE paper, Section 3, equation (4), with groups counted from 0 as t mod K is. Without ``p`` every client
keeps its own base probability, the generalisation that the paper attributes to Sun et al., 2025. A client
without images, of base probability 0, stays out.)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core.availability import blocks


@dataclass(frozen=True)
class Params:
    """``groups`` K, equal contiguous blocks of clients; ``p`` of every client in its group's round."""

    groups: Annotated[int, Ge(1)] = 4
    p: Annotated[float, Ge(0), Le(1)] | None = None


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unclipped p_i^t for base probabilities (m,) and rounds (T,), shape (T, m)."""
    own = base if params.p is None else np.where(base > 0, params.p, 0.0)
    turn = (t % params.groups)[:, None] == blocks(len(base), params.groups)
    return np.where(turn, own, 0.0)
