"""Availability traces: which clients take part in which round."""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.rng import stream


def probabilities(
    dynamics: ModuleType, params: Any, base: NDArray[np.float64], rounds: int
) -> NDArray[np.float64]:
    """``p_i^t = clip(p_i f(t), 0, 1)`` for rounds t = 0, ..., T-1; shape (T, m)."""
    return np.clip(dynamics.probability(params, base, np.arange(rounds)), 0.0, 1.0)


def draw(probability: NDArray[np.float64], seed: int, dataset: str) -> NDArray[np.bool_]:
    """Independent Bernoulli draws, shape (T, m).

    One uniform per (round, client), in that order, from a stream that knows neither the dynamics nor the
    algorithm: traces of one seed are coupled across dynamics, and a longer run starts with the shorter one.
    """
    return np.asarray(stream(seed, "trace", dataset).random(probability.shape) < probability)
