"""How long a client has been away: moments of t - tau_i(t), and Lemma 7 of the FedSWE paper."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def moments(probability: Floats) -> tuple[Floats, Floats]:
    """First and second moment of ``t - tau_i(t)`` for t = 0, ..., T - 1; both (T, m).

    With ``D_t = t - tau_i(t)``, ``D_0 = 1``, and D_{t+1} is 1 where the client is active in round t and
    ``D_t + 1`` else, the moments follow a linear recursion.
    """
    first, second = np.ones_like(probability), np.ones_like(probability)
    for t, p in enumerate(probability[:-1]):
        first[t + 1] = 1 + (1 - p) * first[t]
        second[t + 1] = 1 + (1 - p) * (second[t] + 2 * first[t])
    return first, second


def absences(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """``t - tau_i(t)`` of a trace (T, m); same shape."""
    rounds = np.arange(len(active))[:, None]
    last = np.maximum.accumulate(np.where(active, rounds, -1))
    return rounds - np.concatenate([np.full((1, active.shape[1]), -1), last[:-1]])


def lowest_average(probability: Floats, window: int) -> Floats:
    """Per client the smallest average of p_i^t over the complete windows [nP, (n + 1) P); shape (m,)."""
    count = len(probability) // window
    average: Floats = probability[: count * window].reshape(count, window, -1).mean(1).min(0)
    return average


def smallest_window(probability: Floats, delta: float) -> int:
    """P_delta of Assumption 1 for one client's probabilities (T,): the smallest P that satisfies (2)."""
    column = probability[:, None]
    return next(p for p in range(1, len(column) + 1) if lowest_average(column, p)[0] >= delta - 1e-12)


def lemma_7(window: int, delta: float) -> tuple[float, float]:
    """The right-hand sides of (15) and (16)."""
    second = ((window - 1) * delta + 1) ** 2 + (window - 1) * delta**2 + 1
    return window + 1 / delta, second / delta**2
