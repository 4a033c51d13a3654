"""FedSWE's auxiliary sequence z on quadratics, and exact second moments of all that depends on it.

``F_i(x) = a_i ||x - u_i||^2 / 2`` with gradient noise ``E ||xi||^2 = sigma^2``, and ``D_i = t - tau_i(t)``.
With ``y_i = (D_i - 1)(x_i - u_i)`` Algorithm 1 and Definition 6 of the FedSWE paper are linear in (x, y, u):

    x_i^dag = x_i - eta_g kappa_i (y_i + x_i - u_i) + D_i noise,  kappa_i = 1 - (1 - eta_l a_i)^s,
    z_i = x_i - eta_l eta_g s a_i y_i,

and y_i becomes 0 in a round in which client i is active and ``y_i + x_i - u_i`` else. Availability is
independent over rounds and clients. So second moments, and the moments of D_i, follow a linear recursion
over all active sets, and so do sums over rounds. The k virtual clients of Section 6.2 hold the server's
model.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.local_sgd import Quadratics
from fedrepro.core.mixing import active_sets

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """``local``, ``server``: eta_l and eta_g; ``steps``: s; ``virtual``: k."""

    local: float
    server: float
    steps: int
    virtual: float

    @property
    def progress(self) -> float:
        """eta_l eta_g s, the step of z in a round."""
        return self.local * self.server * self.steps

    def moved(self, curvature: Floats) -> Floats:
        """``kappa_i``: the share of the way to its minimiser that s noiseless local steps go."""
        return 1 - (1 - self.local * curvature) ** self.steps

    def noise(self, problem: Quadratics) -> Floats:
        """``E ||.||^2`` of what gradient noise adds to a client's local training, shape (m,)."""
        kept = (1 - self.local * problem.curvature) ** (2 * np.arange(self.steps)[:, None])
        variance: Floats = (self.local * problem.noise) ** 2 * kept.sum(0)
        return variance


class Averages(NamedTuple):
    """Expectations averaged over rounds 0, ..., T - 1; sums over clients divide by M = m + k.

    ``approximation``: of ``||x_i - z_i||^2``; ``consensus``: of ``||z_i - zbar||^2``, and ``regular`` that
    without the virtual clients; ``gradient``: of ``||grad F(zbar)||^2``; ``consensus_x``, ``gradient_x``: the
    same with x; ``at_x``, ``at_z``: of ``||grad F_i||^2`` at x_i and z_i.
    """

    approximation: float
    consensus: float
    regular: float
    gradient: float
    consensus_x: float
    gradient_x: float
    at_x: float
    at_z: float


def auxiliary(problem: Quadratics, rates: Rates, local: Floats, absence: Floats) -> Floats:
    """``z`` of Definition 6, from models x_i (..., m, d) and absences D_i (..., m); shape (..., m, d)."""
    gradients = problem.curvature[:, None] * (local - problem.minima)
    z: Floats = local - rates.progress * (absence[..., None] - 1) * gradients
    return z


def dissimilarity(problem: Quadratics) -> tuple[float, float]:
    """beta^2 and zeta^2 of Assumption 4: twice the least possible beta^2, then the smallest zeta^2.

    With abar the mean curvature, ``grad F_i - grad F = r_i grad F + e_i``, ``r_i = a_i / abar - 1`` and e_i
    the gradient of F_i at the minimiser of F.
    """
    ratio = problem.curvature / problem.curvature.mean() - 1
    mean = problem.curvature @ problem.minima / problem.curvature.sum()
    rest = problem.curvature[:, None] * (mean - problem.minima)
    least, cross = float((ratio**2).mean()), (ratio[:, None] * rest).mean(0)
    zeta = float((rest**2).sum(1).mean())
    return 2 * least, zeta + (float(cross @ cross) / least if least else 0.0)


def averages(problem: Quadratics, rates: Rates, start: Floats, probability: Floats, rounds: int) -> Averages:
    """Exact averages over ``rounds`` rounds, a multiple of the period of ``probability`` (P, m).

    The state is the second moment of (x, y, server, u), summed over coordinates, E D_i, E D_i^2 and 1, and
    the sums so far; a power of the map of one period takes it to the last round.
    """
    periods, rest = divmod(rounds, len(probability))
    if rest:
        raise ValueError(f"rounds is {rounds}: it must be a multiple of the period {len(probability)}")
    m = problem.clients
    stack = np.concatenate([np.tile(start, (m, 1)), np.zeros((m, len(start))), start[None], problem.minima])
    state = np.concatenate([(stack @ stack.T).ravel(), np.ones(2 * m + 1)])
    forms = _forms(problem, rates)
    step = np.eye(len(state) + len(forms))
    for row in probability:
        one = np.eye(len(step))
        one[: len(state), : len(state)] = _round(problem, rates, row)
        one[len(state) :, : len(forms[0])] = forms
        step = one @ step
    power = np.linalg.matrix_power(step, periods)
    sums = power[len(state) :, : len(state)] @ state
    return Averages(*(float(value) for value in sums / rounds))


def _positions(m: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Functionals on a state of length n: x (m, n), y (m, n), the server (n,) and u (m, n)."""
    eye = np.eye(3 * m + 1)
    return eye[:m], eye[m : 2 * m], eye[2 * m], eye[2 * m + 1 :]


def _forms(problem: Quadratics, rates: Rates) -> Floats:
    """What `Averages` lists, as linear functionals of the second moment; shape (8, n^2)."""
    m, k = problem.clients, rates.virtual
    x, y, server, u = _positions(m)
    a, total = problem.curvature[:, None], m + k
    z = x - rates.progress * a * y

    def squares(rows: Floats) -> Floats:
        return rows.T @ rows / total

    def around(rows: Floats) -> tuple[Floats, Floats, Floats]:
        mean = (rows.sum(0) + k * server) / total
        gradient = (a * (mean - u)).mean(0)
        regular = squares(rows - mean)
        return (
            regular + k * np.outer(server - mean, server - mean) / total,
            regular,
            np.outer(gradient, gradient),
        )

    consensus, regular, gradient = around(z)
    consensus_x, _, gradient_x = around(x)
    at = squares(a * (x - u)), squares(a * (z - u))
    found = (squares(x - z), consensus, regular, gradient, consensus_x, gradient_x, *at)
    return np.stack([form.ravel() for form in found])


def _round(problem: Quadratics, rates: Rates, probability: Floats) -> Floats:
    """The linear map of one round on (second moments, E D, E D^2, 1)."""
    m, k = problem.clients, rates.virtual
    x, y, server, u = _positions(m)
    echoed = x - rates.server * rates.moved(problem.curvature)[:, None] * (y + x - u)
    noise = rates.server**2 * rates.noise(problem)
    n = 3 * m + 1
    out = np.zeros((n * n + 2 * m + 1,) * 2)
    first, second, one = slice(n * n, n * n + m), slice(n * n + m, n * n + 2 * m), -1
    for active, weight in zip(*active_sets(probability), strict=True):
        count = active.sum() + k
        held = active[:, None]
        new = (echoed[active].sum(0) + k * server) / count if count else server
        move = np.concatenate([np.where(held, new, x), np.where(held, 0.0, y + x - u), new[None], u])
        reached = np.concatenate([active, np.zeros(m), [active.any()], np.zeros(m)])
        out[: n * n, : n * n] += weight * np.kron(move, move)
        if active.any():
            added = np.outer(reached, reached).ravel()[:, None] * (active * noise / count**2)
            out[: n * n, second] += weight * added
    out[first, first] = out[second, second] = np.diag(1 - probability)
    out[second, first] = np.diag(2 * (1 - probability))
    out[first, one] = out[second, one] = 1.0
    out[one, one] = 1.0
    return out
