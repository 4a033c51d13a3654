"""Scalar problems and the constants of their theory (partial-participation paper, Sections II and III)."""

import math
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import bisect, linprog

Floats = NDArray[np.float64]
POINTS_PER_PIECE = 200  # of the grid between two kinks on which the BGD condition is imposed


class BgdConstants(NamedTuple):
    """The smallest ``zeta^2 + psi^2`` of the bounded-gradient-dissimilarity condition (3), and its parts."""

    zeta_squared: float
    psi_squared: float

    @property
    def total(self) -> float:
        """``zeta^2 + psi^2``."""
        return self.zeta_squared + self.psi_squared


class Problem:
    """A problem plugin bound to its parameters: ``f = (1/n) sum_i f_i`` on the real line.

    Every ``f_i`` is convex with infimum 0.
    """

    def __init__(self, plugin: ModuleType, params: Any):
        self.plugin, self.params = plugin, params
        self.offsets: Floats = plugin.offsets(params)

    @property
    def clients(self) -> int:
        """Number of clients n."""
        return len(self.offsets)

    def value(self, x: Floats | float) -> Floats:
        """f(x), elementwise."""
        return self.plugin.values(np.asarray(x)[..., None], self.offsets).mean(-1)

    def gradient(self, x: Floats | float) -> Floats:
        """f'(x), elementwise."""
        return self.plugin.gradients(np.asarray(x)[..., None], self.offsets).mean(-1)

    def dissimilarity(self, x: Floats | float) -> Floats:
        """``(1/n) sum_i (f_i'(x) - f'(x))^2``, elementwise: the left-hand side of (3)."""
        return self.plugin.gradients(np.asarray(x)[..., None], self.offsets).var(-1)

    @cached_property
    def minimiser(self) -> float:
        """A minimiser of f: the middle of the interval of all minimisers.

        Raises
        ------
        ValueError
            If f has no minimiser.
        """
        low, high = self.offsets.min() - 2, self.offsets.max() + 2
        while self.gradient(low) >= 0 and np.isfinite(low):
            low -= 2 * (high - low)
        while self.gradient(high) <= 0 and np.isfinite(high):
            high += 2 * (high - low)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError("f has no minimiser: its derivative does not change sign")
        first = bisect(lambda x: -1.0 if self.gradient(x) < 0 else 1.0, low, high, xtol=1e-13)
        last = bisect(lambda x: 1.0 if self.gradient(x) > 0 else -1.0, low, high, xtol=1e-13)
        return (first + last) / 2

    @cached_property
    def minimum(self) -> float:
        """f*, which is also sigma_f* (11), since every f_i has infimum 0."""
        return float(self.value(self.minimiser))

    @property
    def start(self) -> float:
        """x_0."""
        return float(self.plugin.start(self.params, self.minimiser))

    def bgd_constants(self) -> BgdConstants:
        """Minimise ``zeta^2 + psi^2`` subject to (3) at every x: a linear program in the two squares.

        For Huber clients: imposed on a grid with `POINTS_PER_PIECE` points between neighbouring kinks
        ``d_i +- 1`` of the f_i', beyond which the f_i' are constant.
        """
        kinks = np.unique(np.concatenate([self.offsets - 1, self.offsets + 1]))
        edges = np.concatenate([[kinks[0] - 1], kinks, [kinks[-1] + 1]])
        x = np.concatenate([np.linspace(a, b, POINTS_PER_PIECE) for a, b in pairwise(edges)])
        allowed = -np.column_stack([np.ones_like(x), self.gradient(x) ** 2])
        solved = linprog([1.0, 1.0], A_ub=allowed, b_ub=-self.dissimilarity(x))
        return BgdConstants(*solved.x)


def sampling_factor(sampled: int, clients: int) -> float:
    """``I_S = (n - S) / (n - 1)``, equation (10)."""
    return (clients - sampled) / (clients - 1)


def admissible_step(plugin: ModuleType, sampled: int, local_steps: int, rounds: int) -> float:
    """The largest step size that Theorem 2 admits: the right-hand side of (20)."""
    smooth, slope, q, horizon = plugin.L, plugin.C, local_steps, rounds
    factor = sampling_factor(sampled, plugin.CLIENTS)
    return min(
        1 / (8 * q * (smooth + slope)),
        math.sqrt(sampled / (4 * horizon * q**2 * smooth * (2 * smooth * factor + slope / q))),
        (24 * q**3 * smooth**2 * (smooth + slope) * horizon) ** (-1 / 3),
    )


def balanced_step(problem: Problem, sampled: int, local_steps: int, rounds: int) -> float:
    """The step size (22) of Theorem 2, which balances the terms of (21); it satisfies (20)."""
    smooth, slope, floor = problem.plugin.L, problem.plugin.C, problem.plugin.D
    gap, sigma = float(problem.value(problem.start)) - problem.minimum, problem.minimum
    factor, q, t = sampling_factor(sampled, problem.clients), local_steps, rounds
    second = 4 * t * q**2 * smooth * (2 * smooth * factor + slope / q) / sampled
    third = 24 * q**3 * smooth**2 * (smooth + slope) * t
    beta = 8 * q * (smooth + slope) + math.sqrt(second) + third ** (1 / 3)  # (23)
    noise = smooth * q * t * (floor + 2 * slope * sigma + 4 * smooth * q * factor * sigma)
    cubed = q**3 * smooth**2 * t * (6 * (smooth + slope) * sigma + floor / q) / (3 * gap)
    return 1 / (math.sqrt(noise / (3 * sampled * gap)) + cubed ** (1 / 3) + beta)


def gradient_bound(problem: Problem, sampled: int, local_steps: int, rounds: int, step_size: float) -> float:
    """Theorem 2's bound (21) on ``min_t E |f'(x_t)|^2``; it holds for step sizes that satisfy (20)."""
    smooth, slope, floor = problem.plugin.L, problem.plugin.C, problem.plugin.D
    gap = float(problem.value(problem.start)) - problem.minimum
    sigma, q, a = problem.minimum, local_steps, step_size
    factor = sampling_factor(sampled, problem.clients)
    return (
        12 * gap / (a * q * rounds)
        + 4 * a * smooth * (floor + 2 * slope * sigma) / sampled
        + 16 * a * q * smooth**2 * factor * sigma / sampled
        + 8 * a**2 * q**2 * smooth**2 * (6 * (smooth + slope) * sigma + floor / q)
    )
