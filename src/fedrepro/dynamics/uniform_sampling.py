"""The server samples S of the m clients in every round, uniformly without replacement.

(The controllable availability of the FedSWE paper, Section 2.1 (i), after McMahan et al., 2017. Rounds are
independent, the clients of one round are not.)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from fedrepro.errors import FedreproError


@dataclass(frozen=True)
class Params:
    """``sampled``: S, out of the clients that hold images."""

    sampled: Annotated[int, Ge(1)] = 10


def probability(params: Params, base: NDArray[np.float64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """S / m for every client and round, shape (T, m); m counts the clients of positive base rate."""
    candidates = base > 0
    number = int(candidates.sum())
    if params.sampled > number:
        raise FedreproError(
            f"key 'dynamics.sampled': {params.sampled} clients cannot be sampled from the {number} that "
            f"hold images; use at most {number}"
        )
    return np.tile(candidates * (params.sampled / number), (len(t), 1))


def draw(params: Params, probability: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Exactly S available clients a round, shape (T, m): those with the S smallest of its uniforms."""
    uniform = np.where(probability > 0, rng.random(probability.shape), np.inf)
    first = np.argsort(uniform, axis=1, kind="stable")[:, : params.sampled]
    active = np.zeros(probability.shape, dtype=np.bool_)
    np.put_along_axis(active, first, True, axis=1)
    return active
