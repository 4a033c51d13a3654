"""Convergence statements of the IncentFedAvg paper (Sections 4 and 6), measured on quadratic losses.

All constants of the statements are known for quadratics, and all expectations follow in closed form
(`fedrepro.core.local_sgd`), so that a measured value is exact and no bound is helped by sampling. The models
are the mean with the weights p_r that Definition 4.1 prints; the server averages with p_r+1, as Algorithm 1
does (line 13). Step sizes are the largest that a statement admits. A bound above the value at the initial
model is called vacuous.

Theorem 4.9 as printed takes the drift bound of Lemma 6.9, which is for one round, for all rounds after rhat
together; and the proof of Lemma 6.7 has G^2 and B^2 where the sum over clients of Lemma 6.5 gives m times
them. ``Rederived`` bounds put both right.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, inf, log, sqrt
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fedrepro.core import checks
from fedrepro.core.checks import Check
from fedrepro.core.game import Floats, Game, trajectory
from fedrepro.core.job import Inputs, bind
from fedrepro.core.local_sgd import (
    Quadratics,
    Server,
    average,
    bounded_dissimilarity,
    convex_dissimilarity,
    run,
    steps,
)
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec
from fedrepro.errors import FedreproError

NEEDS = ("game", "participation", "rounds")
SCHEMA = checks.SCHEMA

LOCAL_STEPS = (1, 5, 10, 20)  # H, the paper's
WORST = "largest of H = 1, 5, 10, 20"
ACCURACIES = (1.0, 0.1, 0.01)  # epsilon of Theorem 4.10
DIMENSION = 4
CURVATURES = (0.2, 1.0)  # of the first and the last client, evenly spaced
NOISE = 0.5  # nu
DISTANCE = 10.0  # of the initial model from x*, in every coordinate


@dataclass(frozen=True)
class Params:
    """The statements have no parameters; the game, its step size and the rounds are keys of the cell."""


class Setting(NamedTuple):
    """A strongly monotone game played and the losses that are trained beside it.

    ``path``: N_r (R + 1, m); ``shares``: p_r (R + 1, m); ``target``: N* (m,); ``start``: initial model (d,);
    ``rho``, ``delta``: rate and delta_0 of Lemma 4.3.
    """

    path: Floats
    shares: Floats
    target: Floats
    problem: Quadratics
    start: Floats
    rho: float
    delta: float

    @property
    def rounds(self) -> int:
        """R."""
        return len(self.path) - 1

    def server(self, step: float, local_steps: int) -> Server:
        """The server's model, which is averaged with p_r+1."""
        return run(self.problem, self.shares[1:], step, local_steps, self.start)

    def first(self, needed: float, what: str) -> int:
        """The smallest rhat that a theorem admits; it must leave rounds to average over."""
        found = max(ceil(needed), 0)
        if found > self.rounds - 1:
            raise FedreproError(
                f"key 'rounds': {what} averages from round {found} on, with {self.rounds} rounds there are "
                f"none left; use more than {found}, or a larger participation.step_size"
            )
        return found


def mean_recursion(shares: Floats, gradients: Floats, step: float, defined: int, averaged: int) -> float:
    """Lemma 4.2: the largest ``||xbar_k+1 - xbar_k + gamma gbar_k||`` of a run with given gradients.

    Parameters
    ----------
    shares : array, shape (R + 1, m)
        p_r.
    gradients : array, shape (R, H, m, d)
        g_i,k; the lemma asks nothing of them.
    step : float
        gamma.
    defined, averaged : int
        0 or 1: whether xbar and gbar, and the server, use p_r or p_r+1 in round r.
    """
    models = np.zeros(gradients.shape[2:])
    worst = 0.0
    for r, in_round in enumerate(gradients):
        weights = shares[r + defined]
        for j, gradient in enumerate(in_round):
            expected = weights @ models - step * weights @ gradient
            models = models - step * gradient
            found = weights @ models
            if j == len(in_round) - 1:
                found = shares[r + averaged] @ models
                models = np.tile(found, (len(models), 1))
            worst = max(worst, float(np.linalg.norm(found - expected)))
    return worst


def lemma_42(setting: Setting, seed: int) -> list[Check]:
    """Which weights make the mean of the models follow the mean of the gradients."""
    rounds, clients = min(setting.rounds, 20), setting.problem.clients
    gradients = stream(seed, "game", "", 5).standard_normal((rounds, 3, clients, DIMENSION))
    pair = np.array([[0.5, 0.5], [0.75, 0.25]])
    opposite = np.array([-1.0, 1.0]).reshape(1, 1, 2, 1)  # gradients at 0 of (x - 1)^2 / 2, (x + 1)^2 / 2
    head, error = "Convergence: Lemma 4.2", "largest ||x_k+1 - x_k + gamma g_k||"
    readings = {
        ("Lemma 4.2, Def. 4.1 (l. 190-196)", "means with p_r, server with p_r+1 as in line 13"): (0, 1),
        ("Lemma 4.2, eq. 16 (l. 703)", "means with p_r, server with p_r"): (0, 0),
        ("own derivation", "means with p_r+1, server with p_r+1"): (1, 1),
    }
    rows = []
    for (where, text), which in readings.items():
        worst = mean_recursion(setting.shares, gradients, 0.1, *which)
        rows.append(Check(head, where, f"{text}: {error}", 0.0, worst, "="))
    smallest = mean_recursion(pair, opposite, 0.5, 0, 1)
    text = "the first, m = 2, R = H = 1, f_i = (x -+ 1)^2 / 2, gamma = 1/2, p = (1/2, 1/2), then (3/4, 1/4)"
    return [*rows, Check(head, "own derivation", text, 0.0, smallest, "=")]


def lemma_413(setting: Setting) -> list[Check]:
    """Drift within a round; step H is that before the server averages."""
    problem, bgd = setting.problem, bounded_dissimilarity(setting.problem)
    m, lipschitz, noise = problem.clients, problem.smoothness, problem.noise**2
    ratios = []
    for h in LOCAL_STEPS:
        gamma = 1 / (sqrt(3) * h * lipschitz)
        found = steps(problem, setting.server(gamma, h), setting.shares[:-1], gamma, h)
        moments = found.mean[:, :-1], found.variance[:, :-1]
        local, squared = problem.local_gradients(*moments).sum(axis=-1), problem.gradient(*moments)
        drift, done = found.drift[:, 1:], np.arange(1, h + 1)
        first = 3 * noise + 3 * lipschitz**2 * found.drift[:, :-1] + 3 * local
        second = noise + m * (bgd.g2 + bgd.b2 * squared)
        third = 9 * m * bgd.b2 * squared.sum() + 9 * (noise + m * bgd.g2) * squared.size
        ratios.append((
            (drift / (gamma**2 * done * np.cumsum(first, axis=1))).max(),
            (drift / (9 * h * gamma**2 * np.cumsum(second, axis=1))).max(),
            found.drift[:, :-1].sum() / (gamma**2 * h**2 * third),
        ))  # fmt: skip
    return [
        Check(
            "Convergence: Lemma 4.13",
            f"Lemma 4.13 ({part}) (l. 479-493)",
            f"drift over its bound, {WORST}",
            1.0,
            float(worst),
        )
        for part, worst in zip(("i", "ii", "iii"), np.max(ratios, axis=0), strict=True)
    ]


def theorem_46(setting: Setting) -> list[Check]:
    """(i-1), the mean squared gradient, and (i-2), the distance from the equilibrium."""
    problem, bgd = setting.problem, bounded_dissimilarity(setting.problem)
    m, lipschitz, noise, rho = problem.clients, problem.smoothness, problem.noise**2, setting.rho
    initial = float(problem.gradient(setting.start))
    needed = log(17 * m**2 * setting.delta**2 * bgd.b2) / (2 * log(1 / rho)) if setting.delta else 0.0
    first, last = setting.first(needed, "Theorem 4.6"), setting.rounds
    tail = (rho ** (2 * first) - rho ** (2 * last)) / ((1 - rho**2) * (last - first))
    ratios, vacuous = [], []
    for h in LOCAL_STEPS:
        gamma = min(1 / 32, sqrt(2 / 153 / bgd.b2) / (m * h)) / lipschitz
        server = setting.server(gamma, h)
        found = steps(problem, server, setting.shares[:-1], gamma, h)
        measured = problem.gradient(found.mean[first:, :-1], found.variance[first:, :-1]).mean()
        bound = (
            16 * problem.gap(server.mean[first], server.variance[first]) / (gamma * h * (last - first))
            + 8 * lipschitz * gamma * noise
            + 153 / 2 * (noise + m * bgd.g2) * m * lipschitz**2 * h**2 * gamma**2
            + 16 * m**2 * setting.delta**2 * bgd.g2 * (1 + 2 * lipschitz * gamma) * tail
        )
        ratios.append(float(measured / bound))
        vacuous += [h] * int(bound > initial)
    away = ((setting.path - setting.target) ** 2).sum(axis=1)
    head = "Convergence: Theorem 4.6"
    return [
        Check(head, "Theorem 4.6 (i-1) (l. 359-365)",
              f"E ||grad f(x_k*)||^2 over its bound, {_worst(vacuous)}", 1.0, max(ratios)),
        Check(head, "Theorem 4.6 (i-2) (l. 367-369)", "E ||N_r* - N*||^2 over its bound", 1.0,
              float(away[first:-1].mean() / (tail * away[0])) if away[0] else 0.0),
    ]  # fmt: skip


def _worst(vacuous: list[int]) -> str:
    return WORST + (f" (vacuous for H = {', '.join(map(str, vacuous))})" if vacuous else "")


class Convex(NamedTuple):
    """Theorem 4.9 (i-1) for some H: ``gamma``, and ``bound`` of a number of rounds after rhat."""

    problem: Quadratics
    rho: float
    delta: float
    local_steps: int
    rederived: bool

    @property
    def gamma(self) -> float:
        """The largest step size that is admitted."""
        m, h, lipschitz = self.problem.clients, self.local_steps, self.problem.smoothness
        b2 = convex_dissimilarity(self.problem).b2
        return min(
            1 / (m * h * sqrt(self.delta) / (1 - sqrt(self.rho)) + 24 * lipschitz * h * sqrt(b2 * m)),
            1 / (16 * lipschitz),
            1 / (2 * m * lipschitz),
            1 / (16 * lipschitz * m**2 * b2 * self.delta) if self.delta else inf,
            1 / (sqrt(3) * h * lipschitz),
        )

    @property
    def needed(self) -> float:
        """What rhat must at least be."""
        b2 = convex_dissimilarity(self.problem).b2 * (self.problem.clients if self.rederived else 1)
        scale = self.delta * (16 * self.problem.smoothness**2 * b2**2) ** (1 / 3)
        return log(scale) / log(1 / self.rho) if scale else 0.0

    def bound(self, squared: float, rounds: int) -> float:
        """Of ``E f(average) - f*``, where ``squared`` is ``E ||xbar - x*||^2`` after rhat rounds."""
        problem, h, gamma, delta, rho = self.problem, self.local_steps, self.gamma, self.delta, self.rho
        m, noise, g2 = problem.clients, problem.noise**2, convex_dissimilarity(problem).g2
        drifts, copies = (rounds, m) if self.rederived else (1, 1)
        apart = copies * g2 + float(problem.local_gradients(problem.minimiser).sum())
        inner = (
            4 * squared / gamma
            + 72 * gamma**2 * problem.smoothness * (noise + m * g2) * h**3 * drifts
            + 4 * gamma * noise * h * rounds
            + 16 * gamma * m**2 * delta**2 * g2 * h / (1 - rho**2)
            + 4 * delta**1.5 * apart * h / (1 - rho**1.5)
        ) / (h * rounds)
        return inner / (1 - m * gamma * sqrt(delta) * h / (1 - sqrt(rho)))


def theorem_49(setting: Setting) -> list[Check]:
    """(i-1), the loss of the averaged model, as printed and rederived."""
    problem = setting.problem
    initial = float(problem.gap(setting.start))
    rows = []
    for rederived, name in ((False, "as printed"), (True, "rederived")):
        ratios, vacuous = [], []
        for h in LOCAL_STEPS:
            case = Convex(problem, setting.rho, setting.delta, h, rederived)
            first = setting.first(case.needed, "Theorem 4.9")
            server = setting.server(case.gamma, h)
            rest = Server(server.mean[first:], server.variance[first:])
            mean, variance = average(
                problem, rest, setting.shares[first + 1 :], setting.shares[first:-1], case.gamma, h
            )
            squared = 2 * float(problem.gap(rest.mean[0], rest.variance[0])) / problem.total
            bound = case.bound(squared, setting.rounds - first)
            ratios.append(float(problem.gap(mean, variance)) / bound)
            vacuous += [h] * int(bound > initial)
        where = "own derivation" if rederived else "Theorem 4.9 (i-1) (l. 386-396)"
        text = f"E f(average) - f* over its bound {name}, {_worst(vacuous)}"
        rows.append(Check("Convergence: Theorem 4.9", where, text, 1.0, max(ratios)))
    return rows + counterexample_49()


def bias(case: Convex, rounds: int) -> float:
    """``f(average) - f*`` without noise, with fixed weights p*, from a start at x*; d = 1.

    The server's model is ``limit + factor^r (x* - limit)`` after r rounds. The limit is off x*, since clients
    of larger curvature move less in their later local steps.
    """
    problem, h = case.problem, case.local_steps
    kept = 1 - case.gamma * problem.curvature
    pull = problem.weights * (1 - kept**h)
    limit, factor = pull @ problem.minima / pull.sum(), problem.weights @ kept**h
    mean = limit + (problem.minimiser - limit) * (1 - factor**rounds) / (rounds * (1 - factor))
    inner = (kept ** np.arange(h)[:, None]).mean(axis=0)
    models = problem.minima + inner[:, None] * (mean - problem.minima)
    return float(problem.gap(problem.weights @ models))


def counterexample_49() -> list[Check]:
    """Two clients, two local steps, exact gradients, N_0 = N*: the printed bound tends to 0, the loss not.

    nu = 0 is admitted: it is the limit of nu > 0, in which both sides are continuous.
    """
    losses = Quadratics(np.array([1.0, 0.25]), np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), 0.0)
    printed, right = (Convex(losses, 0.5, 0.0, 2, rederived) for rederived in (False, True))
    fails = bisect_left(range(1, 10**6), True, key=lambda r: bias(printed, r) > printed.bound(0.0, r)) + 1
    shown = 2 * fails
    text = f"f(average) - f*, m = H = 2, nu = 0, N_0 = N*, x_0 = x*, a = (1, 1/4), u = (0, 1), R = {shown}"
    head = "Convergence: Theorem 4.9"
    return [
        Check(head, "Theorem 4.9 (i-1) (l. 386-396)", f"{text}, as printed: fails from R = {fails} on",
              printed.bound(0.0, shown), bias(printed, shown)),
        Check(head, "own derivation", f"{text}, rederived", right.bound(0.0, shown),
              bias(right, shown)),
    ]  # fmt: skip


def lemma_65(setting: Setting) -> list[Check]:
    """The bound of the gradients by the loss, over all models; and two losses that fall below zero.

    ``mean_i a_i^2 ||x - u_i||^2 - L B^2 A ||x - x*||^2`` is concave, so the largest excess is in closed form.
    """
    problem, bgd = setting.problem, convex_dissimilarity(setting.problem)
    squares = problem.curvature**2 / problem.clients
    curved = problem.smoothness * bgd.b2 * problem.total
    best = (curved * problem.minimiser - squares @ problem.minima) / (curved - squares.sum())
    bound = bgd.g2 + 2 * problem.smoothness * bgd.b2 * problem.gap(best)
    equal = Quadratics(np.ones(2), np.zeros((2, 1)), np.array([0.75, 0.25]), 0.0)
    below = convex_dissimilarity(equal, -0.5)
    where = "Lemma 6.5 (l. 940-942)"
    head = "Convergence: Lemma 6.5"
    return [
        Check(head, where, "mean of ||grad f_i(x)||^2 over its bound, at the x of the largest excess", 1.0,
              float(problem.local_gradients(best).mean() / bound)),
        Check(head, where, "m = 2, f_i = (x^2 - 1) / 2, p* = (3/4, 1/4), x = 0: mean of ||grad f_i||^2",
              below.g2, float(equal.local_gradients(equal.minimiser).mean())),
    ]  # fmt: skip


def theorem_410(problem: Quadratics) -> list[Check]:
    """(ii): the limit of the mean squared gradient as R grows, when the weights are at their limit p*."""
    bgd = bounded_dissimilarity(problem)
    m, lipschitz, noise = problem.clients, problem.smoothness, problem.noise**2
    shares = problem.weights[None]
    ratios = []
    for h in LOCAL_STEPS:
        for epsilon in ACCURACIES:
            gamma = min(
                1 / (32 * lipschitz),
                sqrt(2 / 153 / bgd.b2) / (m * h * lipschitz),
                epsilon / (16 * lipschitz * noise),
                sqrt(2 * epsilon / (153 * (noise + m * bgd.g2) * m)) / (lipschitz * h),
            )
            pull = problem.weights * (1 - (1 - gamma * problem.curvature) ** h)
            limit = pull @ problem.minima / pull.sum()
            added = run(problem, shares, gamma, h, limit).variance[1]
            settled = Server(limit[None], np.array([added / (1 - (1 - pull.sum()) ** 2)]))
            found = steps(problem, settled, shares, gamma, h)
            ratios.append(problem.gradient(found.mean[0, :-1], found.variance[0, :-1]).mean() / epsilon)
    text = f"limit of E ||grad f(x_k*)||^2 over epsilon, {WORST} and epsilon = 1, 0.1, 0.01"
    return [
        Check("Convergence: Theorem 4.10", "Theorem 4.10 (ii) (l. 405-417)", text, 1.0, float(max(ratios)))
    ]


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a statement; which ones depends on what the game guarantees."""
    assert spec.game and spec.participation and spec.rounds
    chosen = spec.participation
    game = Game(*bind("game", spec.game), chosen, spec.seed)
    game.require("Section 4", "strongly", "merely")
    if game.equilibria is None or chosen.lower < 1:
        raise FedreproError(
            f"key 'participation.lower': Section 4 assumes N_min >= 1, not {chosen.lower:g}, and its bounds "
            f"need known equilibria (game {game.name})"
        )
    target = game.equilibria[0]
    clients = len(target)
    minima = stream(spec.seed, "game", "", 4).standard_normal((clients, DIMENSION))
    problem = Quadratics(np.linspace(*CURVATURES, clients), minima, target / target.sum(), NOISE)
    if game.guarantee == "merely":
        return checks.table(theorem_410(problem))
    largest = game.modulus / game.lipschitz**2
    if chosen.step_size > largest * (1 + 1e-9):
        raise FedreproError(
            f"key 'participation.step_size': Lemma 4.3 holds up to mu_F / L_F^2 = {largest:g}, not for "
            f"{chosen.step_size:g}"
        )
    path = trajectory(game, chosen, spec.rounds)
    setting = Setting(
        path=path,
        shares=path / path.sum(axis=1, keepdims=True),
        target=target,
        problem=problem,
        start=problem.minimiser + DISTANCE,
        rho=1 - game.modulus * chosen.step_size / 2,
        delta=float((clients - 1) * np.linalg.norm(path[0] - target) / target.sum()),
    )
    rows = lemma_42(setting, spec.seed) + lemma_413(setting) + theorem_46(setting)
    return checks.table(rows + theorem_49(setting) + lemma_65(setting))
