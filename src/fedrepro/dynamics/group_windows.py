"""Groups of clients that are available in turn, each for its window of every period, and dark otherwise.

(FedSWE paper, Section 7.1, equations (31) and (32): two groups, period 100. The printed ``<= P / 2`` would
give the first group 51 rounds and the second 49; the windows are read as equal halves, as Fig. 6 shows them.)
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core.availability import blocks, staircase


@dataclass(frozen=True)
class Params:
    """Windows, and the factor f(t) inside them.

    ``period`` P in rounds; ``groups``: equal contiguous blocks of clients, whose windows are equal parts of
    P in order. ``inside``: f(t) = 1, or a staircase of ``stair_period`` rounds whose second half is
    ``low``; ``origin``: its rounds are counted from round 0 or from the start of each window.
    """

    period: Annotated[int, Ge(2)] = 100
    groups: Annotated[int, Ge(1)] = 2
    inside: Literal["static", "staircase"] = "static"
    stair_period: Annotated[int, Ge(2)] = 20
    low: Annotated[float, Ge(0), Le(1)] = 0.4
    origin: Literal["global", "window"] = "global"


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unclipped p_i^t for base probabilities (m,) and rounds (T,), shape (T, m).

    Group g is available while ``g P / G <= t mod P < (g + 1) P / G``, in whole numbers
    ``g = (t mod P) G // P``.
    """
    position = t % params.period
    window = position * params.groups // params.period
    factor = np.ones(len(t))
    if params.inside == "staircase":
        start = -(-window * params.period // params.groups)  # first round of the window: P g / G, rounded up
        factor = staircase(
            t if params.origin == "global" else position - start, params.stair_period, params.low
        )
    available = window[:, None] == blocks(len(base), params.groups)
    return np.where(available, factor[:, None] * base, 0.0)
