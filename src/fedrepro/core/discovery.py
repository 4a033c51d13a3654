"""The random-discovery payoff of the IncentFedAvg paper (Sections 2.1 and 5.1), which two games share.

Client i holds class distribution q_i and is paid ``a_i(N) = q_i Q^T N``: any client's image is worth to it
what the two clients' distributions have in common. Its data cost it ``theta_i N_i``. So the marginals
``F_i = theta_i - ||q_i||^2`` are constant.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.rng import stream

Floats = NDArray[np.float64]
CLASSES = 10


class Discovery(NamedTuple):
    """``overlap``: W = Q Q^T (m, m), symmetric; ``cost``: theta (m,); ``marginals``: theta_i - W_ii (m,)."""

    overlap: Floats
    cost: Floats
    marginals: Floats


def draw(
    clients: int, seed: int, concentration: float, cost_share: Sequence[float], highest: float
) -> Discovery:
    """``q_i ~ Dirichlet(concentration)`` over ten classes, ``theta_i / ||q_i||^2 ~ U(0, highest)``.

    Given ``cost_share``, these are the ``theta_i / ||q_i||^2`` instead.
    """
    q = stream(seed, "game", "", 0).dirichlet(np.full(CLASSES, concentration), size=clients)
    share = np.array(cost_share) if cost_share else highest * stream(seed, "game", "", 1).random(clients)
    overlap = q @ q.T
    own = np.diag(overlap)
    return Discovery(overlap, share * own, (share - 1) * own)


def losses(c: Discovery, n: Floats) -> Floats:
    """``theta_i N_i - a_i(N)`` at profiles (..., m)."""
    return c.cost * n - n @ c.overlap
