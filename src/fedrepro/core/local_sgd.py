"""FedAvg on quadratic losses with noisy gradients, exactly: means and variances of all models.

``f_i(x) = a_i ||x - u_i||^2 / 2``, and client i sees its gradient with independent isotropic noise e of
variance ``nu^2 = E ||e||^2``. Local steps and averages are affine, so first and second moments follow in
closed form, and expectations in the theorems of the IncentFedAvg paper (Section 4) need no sampling.

A round starts from one model x_r for all, with covariance ``v_r I``. After j local steps client i is at
``u_i + c_i^j (x_r - u_i) + noise`` with ``c_i = 1 - gamma a_i``; the server averages with weights of its own.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratics:
    """``curvature`` a (m,), ``minima`` u (m, d), ``weights`` p* of the global loss f (m,), ``noise`` nu."""

    curvature: Floats
    minima: Floats
    weights: Floats
    noise: float

    @property
    def clients(self) -> int:
        """Number of clients m."""
        return len(self.curvature)

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return self.minima.shape[1]

    @property
    def smoothness(self) -> float:
        """L, of every f_i."""
        return float(self.curvature.max())

    @cached_property
    def total(self) -> float:
        """Curvature of f."""
        return float(self.weights @ self.curvature)

    @cached_property
    def minimiser(self) -> Floats:
        """x*, shape (d,)."""
        return (self.weights * self.curvature) @ self.minima / self.total

    @cached_property
    def optimum(self) -> float:
        """f*."""
        return float(self.weights @ self.local_losses(self.minimiser))

    def local_losses(self, x: Floats) -> Floats:
        """f_i at points (..., d), shape (..., m)."""
        return self.curvature / 2 * self._squared(x)

    def local_gradients(self, x: Floats, variance: Floats | float = 0.0) -> Floats:
        """``E ||grad f_i||^2``, shape (..., m), at points of mean (..., d) and covariance ``variance I``."""
        spread = self.dimension * np.asarray(variance)[..., None]
        return self.curvature**2 * (self._squared(x) + spread)

    def gap(self, x: Floats, variance: Floats | float = 0.0) -> Floats:
        """``E f - f*`` at such points, shape (...)."""
        squared = ((x - self.minimiser) ** 2).sum(axis=-1) + self.dimension * np.asarray(variance)
        return self.total / 2 * squared

    def gradient(self, x: Floats, variance: Floats | float = 0.0) -> Floats:
        """``E ||grad f||^2`` at such points, shape (...)."""
        return 2 * self.total * self.gap(x, variance)

    def _squared(self, x: Floats) -> Floats:
        return ((x[..., None, :] - self.minima) ** 2).sum(axis=-1)


class Dissimilarity(NamedTuple):
    """G^2 and B^2."""

    g2: float
    b2: float


class Server(NamedTuple):
    """Mean (R + 1, d) and variance a coordinate (R + 1,) of the server's model after every round."""

    mean: Floats
    variance: Floats


class Steps(NamedTuple):
    """Of all local steps j = 0, ..., H of R rounds; step H is before the server averages.

    ``mean`` (R, H + 1, d) and ``variance`` a coordinate (R, H + 1) of the weighted mean xbar of the clients'
    models; ``drift``: E of the weighted mean of ``||x_i - xbar||^2``, shape (R, H + 1).
    """

    mean: Floats
    variance: Floats
    drift: Floats


def bounded_dissimilarity(problem: Quadratics) -> Dissimilarity:
    """Assumption 4.5, for a B^2 twice the least possible: the smallest G^2, in closed form.

    ``mean_i a_i^2 ||x - u_i||^2 - B^2 A^2 ||x - x*||^2`` is concave in x, and G^2 its maximum.
    """
    squares = problem.curvature**2 / problem.clients
    least = squares.sum()
    b2 = 2 * least / problem.total**2
    slope = 2 * least * problem.minimiser - squares @ problem.minima
    best = slope / least
    excess = problem.local_gradients(best).mean() - b2 * problem.gradient(best)
    return Dissimilarity(float(excess), float(b2))


def convex_dissimilarity(problem: Quadratics, level: float = 0.0) -> Dissimilarity:
    """G^2 and B^2 of Lemma 6.5, for losses f_i with ``level`` added to each."""
    spread = float(np.abs(1 / (problem.clients * problem.weights) - 1).max())
    twice = 2 * problem.smoothness
    return Dissimilarity(twice * problem.optimum + twice * spread * (problem.optimum + level), 1 + spread)


def run(problem: Quadratics, shares: Floats, step: float, local_steps: int, start: Floats) -> Server:
    """The server's model.

    Parameters
    ----------
    problem : Quadratics
        The losses.
    shares : array, shape (R, m)
        Weights with which the server averages at the end of every round; rows sum to 1.
    step, local_steps : float, int
        gamma and H.
    start : array, shape (d,)
        Initial model.
    """
    kept = (1 - step * problem.curvature) ** local_steps
    own = _noise(problem, step, local_steps)[-1]
    factor, moved, added = shares @ kept, (shares * (1 - kept)) @ problem.minima, shares**2 @ own
    mean, variance = np.empty((len(shares) + 1, problem.dimension)), np.zeros(len(shares) + 1)
    mean[0] = start
    for r in range(len(shares)):
        mean[r + 1] = factor[r] * mean[r] + moved[r]
        variance[r + 1] = factor[r] ** 2 * variance[r] + added[r]
    return Server(mean, variance)


def steps(problem: Quadratics, server: Server, weights: Floats, step: float, local_steps: int) -> Steps:
    """The clients' models during rounds that start from ``server``; ``weights`` (R, m) of their mean."""
    rounds = len(weights)
    kept = (1 - step * problem.curvature) ** np.arange(local_steps + 1)[:, None]  # (H + 1, m)
    own = _noise(problem, step, local_steps)
    away = server.mean[:rounds, None, None, :] - problem.minima  # (R, 1, m, d)
    models = problem.minima + kept[:, :, None] * away
    mean = np.einsum("rm,rjmd->rjd", weights, models)
    common = weights @ kept.T  # (R, H + 1), the coefficient of x_r
    spread = server.variance[:rounds, None]
    variance = common**2 * spread + weights**2 @ own.T
    squared = ((models - mean[:, :, None]) ** 2).sum(axis=-1)  # (R, H + 1, m)
    scatter = (kept - common[:, :, None]) ** 2 * spread[..., None] + own * (1 - 2 * weights[:, None])
    scatter = scatter + (weights**2 @ own.T)[..., None]
    drift = np.einsum("rm,rjm->rj", weights, squared + problem.dimension * scatter)
    return Steps(mean, variance, drift)


def average(
    problem: Quadratics, server: Server, shares: Floats, weights: Floats, step: float, local_steps: int
) -> tuple[Floats, float]:
    """Mean (d,) and variance a coordinate of the average of xbar over steps 0, ..., H - 1 of all rounds.

    The server averages with ``shares`` (R, m), as in `run`, and xbar is defined with ``weights`` (R, m);
    ``server`` has an entry more than there are rounds.
    """
    mean = steps(problem, server, weights, step, local_steps).mean[:, :-1].mean(axis=(0, 1))
    kept = 1 - step * problem.curvature
    powers = kept ** np.arange(local_steps)[:, None]  # (H, m)
    # A gradient's noise in step t counts in the steps after it, and decays until the round ends.
    later = np.concatenate([np.cumsum(powers, axis=0)[::-1][1:], np.zeros((1, problem.clients))])
    left = powers[::-1]
    unit = step**2 * problem.noise**2 / problem.dimension
    both, alone = unit * (later * left).sum(axis=0), unit * (later**2).sum(axis=0)
    reach, factor = weights @ powers.sum(axis=0), shares @ (kept**local_steps)
    total, joint = 0.0, 0.0  # variance of the sum so far, its covariance with the server's model
    for r in range(len(shares)):
        spread = server.variance[r]
        total += 2 * reach[r] * joint + reach[r] ** 2 * spread + weights[r] ** 2 @ alone
        joint = factor[r] * (joint + reach[r] * spread) + (weights[r] * shares[r]) @ both
    return mean, float(total / (len(shares) * local_steps) ** 2)


def _noise(problem: Quadratics, step: float, local_steps: int) -> Floats:
    """Variance a coordinate of what noise adds to each client's model by step j, shape (H + 1, m)."""
    powers = (1 - step * problem.curvature) ** (2 * np.arange(local_steps)[:, None])
    summed = np.concatenate([np.zeros((1, problem.clients)), np.cumsum(powers, axis=0)])
    return step**2 * problem.noise**2 / problem.dimension * summed
