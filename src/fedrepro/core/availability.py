"""Availability traces: which clients take part in which round.

A dynamics has ``probability(params, base, t)``: p_i^t before clipping, shape (T, m), from base probabilities
(m,) and rounds (T,). Where p_i^t is no probability of independent events it also has
``draw(params, probability, rng)``: who is available, bool (T, m). A client of base probability 0 holds no
images and is never available.
"""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.rng import stream
from fedrepro.errors import FedreproError


def probabilities(
    dynamics: ModuleType, params: Any, base: NDArray[np.float64], rounds: int
) -> NDArray[np.float64]:
    """``p_i^t = clip(p_i f(t), 0, 1)`` for rounds t = 0, ..., T-1; shape (T, m)."""
    return np.clip(dynamics.probability(params, base, np.arange(rounds)), 0.0, 1.0)


def participation(
    dynamics: ModuleType, params: Any, probability: NDArray[np.float64], seed: int, dataset: str
) -> NDArray[np.bool_]:
    """Who is available, shape (T, m): the dynamics' own draw where it has one, else `draw`."""
    if hasattr(dynamics, "draw"):
        return np.asarray(dynamics.draw(params, probability, stream(seed, "trace", dataset)))
    return draw(probability, seed, dataset)


def draw(probability: NDArray[np.float64], seed: int, dataset: str) -> NDArray[np.bool_]:
    """Independent Bernoulli draws, shape (T, m).

    One uniform per (round, client), in that order, from a stream that knows neither the dynamics nor the
    algorithm: traces of one seed are coupled across dynamics, and a longer run starts with the shorter one.
    """
    return np.asarray(stream(seed, "trace", dataset).random(probability.shape) < probability)


def sine(t: NDArray[np.int64], period: int, gamma: float) -> NDArray[np.float64]:
    """``gamma sin(2 pi t / P) + (1 - gamma)``, shape (T,).

    Taken at t mod P, so that every period has bit-equal values.
    """
    angle = 2 * np.pi * (t % period) / period
    return gamma * np.sin(angle) + (1 - gamma)


def staircase(t: NDArray[np.int64], period: int, low: float) -> NDArray[np.float64]:
    """1 in the first half of each period, ``low`` in the second; shape (T,)."""
    return np.where(t % period < period / 2, 1.0, low)


def blocks(clients: int, groups: int) -> NDArray[np.int64]:
    """Group of each client, shape (m,): equal contiguous blocks of clients.

    Raises
    ------
    FedreproError
        If the clients cannot be cut into equal groups.
    """
    if clients % groups:
        raise FedreproError(
            f"key 'dynamics.groups': {clients} clients cannot be cut into {groups} equal groups; "
            f"use a number that divides {clients}"
        )
    return np.repeat(np.arange(groups), clients // groups)
