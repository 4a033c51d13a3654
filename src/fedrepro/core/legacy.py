"""The NumPy stream of the authors' released code: partition, base probabilities and trace of one seed.

One ``RandomState(seed)`` is read in this order: the Dirichlet draw of all clients, phi, then round by round
one Bernoulli draw per client. (FedSWE paper, Section 7 and appendix H; order and distributions are those of
the released code.)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.spec import Partition


class Replay(NamedTuple):
    """The draws that come before the first round, and the stream just behind them."""

    share: NDArray[np.float64]  # (m, C), nu_i of every client
    phi: NDArray[np.float64]  # (C,), weight of each class in the base probabilities
    rng: np.random.RandomState


def replay(seed: int, partition: Partition, classes: int) -> Replay:
    """Read a seed's stream up to its first round; it depends on (seed, alpha, m, C) alone.

    ``nu_i ~ Dirichlet(alpha 1)`` for all clients in one call, then ``phi_c ~ U(0, 1)`` for the first
    ``C // 2`` classes and ``U(0, 0.5)`` for the rest.
    """
    rng = np.random.RandomState(seed)
    share = rng.dirichlet(np.full(classes, partition.alpha), size=partition.clients)
    phi = rng.uniform(0.0, np.where(np.arange(classes) < classes // 2, 1.0, 0.5))
    return Replay(share, phi, rng)


def draw(
    probability: NDArray[np.float64], seed: int, partition: Partition, classes: int
) -> NDArray[np.bool_]:
    """Who is available, shape (T, m): one ``binomial(1, p_i^t)`` per round and client, in that order."""
    return replay(seed, partition, classes).rng.binomial(1, probability) == 1
