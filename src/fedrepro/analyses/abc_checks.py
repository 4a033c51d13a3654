"""Checks of the partial-participation paper's lemmas and of Theorem 2, exact by enumeration.

One round of FedAvg on the first clients of a problem: all signs of the oracle's noise and all sets of sampled
clients are listed, so that every expectation is a sum.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core import checks
from fedrepro.core.checks import Check
from fedrepro.core.job import Inputs, bind
from fedrepro.core.problem import Problem, admissible_step, balanced_step, gradient_bound, sampling_factor
from fedrepro.core.spec import AnalysisSpec

NEEDS = ("problem",)
SCHEMA = checks.SCHEMA
POINTS = (-3.0, -0.4, 0.3, 2.0, 8.0)  # x at the start of the round
STEPS = (1, 2)  # Q
HORIZONS = (10**2, 10**4, 10**6)
LARGE = 10.0**6

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``clients``: how many take part in the enumeration, n."""

    clients: Annotated[int, Ge(2), Le(6)] = 4


class Round(NamedTuple):
    """Every outcome of the noise: iterates, gradients, noisy gradients, shape (outcomes, n, Q)."""

    iterates: Floats
    gradients: Floats
    noisy: Floats


def virtual_round(problem: Problem, x: float, steps: int, step: float) -> Round:
    """The virtual trajectories of all clients from x, for all signs of the noise."""
    n = problem.clients
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n * steps))).reshape(-1, n, steps)
    at = np.full((len(signs), n), x)
    kept: list[list[Floats]] = [[], [], []]
    for number in range(steps):
        gradient = problem.plugin.gradients(at, problem.offsets)
        noise = np.sqrt(problem.plugin.variances(at, problem.offsets))
        noisy = gradient + signs[:, :, number] * noise
        for store, value in zip(kept, (at, gradient, noisy), strict=True):
            store.append(value)
        at = at - step * noisy
    return Round(*(np.stack(store, axis=-1) for store in kept))


def subset(problem: Problem, clients: int) -> Problem:
    """The problem of the first clients alone."""
    small = Problem(problem.plugin, problem.params)
    small.offsets = problem.offsets[:clients]
    return small


class Terms(NamedTuple):
    """Exact expectations over one round: both sides of Lemmas 2 and 3, and what Lemmas 4 to 8 speak of."""

    mean_error: float
    sampling: float
    psi: float
    descent: float
    gaps: float
    drift: float


def expectations(problem: Problem, x: float, steps: int, step: float, sampled: int) -> Terms:
    """All expectations of one round from x."""
    n = problem.clients
    played = virtual_round(problem, x, steps, step)
    sums, noisy = played.gradients.sum(-1), played.noisy.sum(-1)  # (outcomes, n)
    middle = sums.mean(1, keepdims=True)
    errors, spread, values = [], [], []
    for chosen in itertools.combinations(range(n), sampled):
        direction = noisy[:, chosen].mean(1)
        errors.append(float(direction.mean()))
        spread.append(float(((sums[:, chosen].mean(1) - middle[:, 0]) ** 2).mean()))
        values.append(float(problem.value(x - step * direction).mean()))
    return Terms(
        float(np.mean(errors)) - float(middle.mean()),
        float(np.mean(spread)),
        float(((sums - middle) ** 2).mean(1).mean()),
        float(np.mean(values)) - problem.minimum,
        float(problem.plugin.values(played.iterates, problem.offsets[:, None]).sum((1, 2)).mean()),
        float(((played.iterates - x) ** 2).sum((1, 2)).mean()),
    )


def lemmas(problem: Problem) -> list[Check]:
    """Lemmas 2 to 8, each at the largest step size it admits."""
    plugin, n = problem.plugin, problem.clients
    smooth, slope, floor, sigma = plugin.L, plugin.C, plugin.D, problem.minimum
    worst = dict.fromkeys(range(2, 9), 0.0)
    full = 0.0
    for x, q, sampled in itertools.product(POINTS, STEPS, range(1, n + 1)):
        gap = float(problem.value(x)) - problem.minimum
        squared, factor = float(problem.gradient(x)) ** 2, sampling_factor(sampled, n)
        a = 1 / (2 * smooth * q)
        now = expectations(problem, x, q, a, sampled)
        worst[2] = max(worst[2], abs(now.mean_error))
        worst[3] = max(worst[3], abs(now.sampling - factor / sampled * now.psi))
        if sampled == n:
            full = max(full, now.sampling)
        fourth = (
            gap - a * q / 2 * squared + a**2 * slope * smooth / (sampled * n) * now.gaps
            + a**2 * smooth * factor / sampled * now.psi + a * smooth**2 / (2 * n) * now.drift
            + a**2 * smooth * q * floor / sampled
        )  # fmt: skip
        worst[4] = max(worst[4], now.descent / fourth)
        fifth = 2 * n * q * (gap + sigma) + smooth * now.drift
        worst[5] = max(worst[5], now.gaps / fifth)
        seventh = 2 * q * smooth**2 / n * now.drift + 4 * q**2 * smooth * (sigma + gap)
        worst[7] = max(worst[7], now.psi / seventh)
        a = min(1 / (2 * math.sqrt(3) * q * smooth), 1 / (2 * math.sqrt(2 * q * slope * smooth)))
        now = expectations(problem, x, q, a, sampled)
        sixth = 4 * a**2 * q**3 * n * (3 * smooth + 2 * slope) * (sigma + gap)
        sixth += 6 * a**2 * q**3 * n * squared + 2 * a**2 * q**2 * n * floor
        worst[6] = max(worst[6], now.drift / sixth)
        a = 1 / (8 * q * (smooth + slope))
        now = expectations(problem, x, q, a, sampled)
        cubic = 12 * a**3 * q**3 * smooth**2 * (smooth + slope)
        growth = 2 * a**2 * q * slope * smooth / sampled + 4 * a**2 * q**2 * smooth**2 * factor / sampled
        eighth = (1 + growth + cubic) * gap - a * q / 4 * squared + cubic * sigma
        eighth += a**2 * smooth * q * floor * (1 + 2 * a * q * smooth * sampled) / sampled
        eighth += 2 * a**2 * q**2 * smooth * sigma / sampled * (2 * smooth * factor + slope / q)
        worst[8] = max(worst[8], now.descent / eighth)
    rows = [
        Check("Sampling", "Lemma 2", "E G_t minus Q times the virtual average gradient", 0.0, worst[2], "="),
        Check("Sampling", "Lemma 3", "sampling variance minus I_S / S times Psi_t", 0.0, worst[3], "="),
        Check("Sampling", "Lemma 3", "sampling variance at S = n", 0.0, full, "="),
    ]
    for number in range(4, 9):
        text = f"left over right side, largest over {len(POINTS)} x, Q and S"
        rows.append(Check("One round", f"Lemma {number}", text, 1.0, worst[number]))
    return rows


def assumptions(problem: Problem) -> list[Check]:
    """The ABC condition and Lemma 1 on a fine grid; the relaxed growth condition along x to infinity."""
    plugin = problem.plugin
    low, high = problem.offsets.min() - 50, problem.offsets.max() + 50
    x = np.linspace(low, high, 40_001)[:, None]
    allowed = plugin.C * plugin.values(x, problem.offsets) + plugin.D
    excess = float((plugin.variances(x, problem.offsets) - allowed).max())
    text = f"variance minus C (f_i - f_i*) - D, C = {plugin.C:g}, D = {plugin.D:g}, largest"
    rows = [Check("ABC condition", "Assumption 2", text, 0.0, excess)]
    around = np.arange(low, high, 1e-3)[:, None]
    bend = np.abs(np.diff(plugin.gradients(around, problem.offsets), axis=0)).max() / 1e-3
    rows.append(Check("Smoothness", "Assumption 1", "largest slope of f_i', L = 1", plugin.L, float(bend)))
    right = 2 * plugin.L * (problem.value(x[:, 0]) - problem.minimum) + 2 * plugin.L * problem.minimum
    ratio = float((problem.dissimilarity(x[:, 0]) / right).max())
    rows.append(Check("Dissimilarity", "Lemma 1, (12)", "left over right side, largest", 1.0, ratio))
    far = [
        float(plugin.variances(at, problem.offsets).mean() / (1 + problem.gradient(at) ** 2))
        for at in (LARGE, LARGE**2)
    ]
    text = "variance over 1 + |f'|^2 at x = 10^12 over that at 10^6: it diverges"
    rows.append(Check("Relaxed growth fails", "Section IV-A", text, 10.0, far[1] / far[0], ">="))
    return rows


def theorem_2(problem: Problem) -> list[Check]:
    """The step size (22), its place in (20), and what (21) then gives, over S, Q and T."""
    plugin, n, sigma = problem.plugin, problem.clients, problem.minimum
    smooth, slope, floor = plugin.L, plugin.C, plugin.D
    gap = float(problem.value(problem.start)) - sigma
    over, growth, ratio, balance = 0.0, 0.0, 0.0, 0.0
    root = math.sqrt(gap) + math.sqrt(sigma)
    nu = (floor + slope * (sigma + gap)) / (smooth * root**2)
    for sampled, q, t in itertools.product(sorted({1, 2, n // 2, n - 1, n}), (1, 5, 50), HORIZONS):
        factor = sampling_factor(sampled, n)
        a = balanced_step(problem, sampled, q, t)
        limit = admissible_step(plugin, sampled, q, t)
        over = max(over, a / limit)
        each = (
            2 * limit**2 * q * slope * smooth / sampled + 4 * limit**2 * q**2 * smooth**2 * factor / sampled
        )
        growth = max(growth, (1 + each + 12 * limit**3 * q**3 * smooth**2 * (smooth + slope)) ** t)
        stated = (
            math.sqrt(smooth * gap * (floor + slope * sigma + slope * gap) / (sampled * q * t))
            + smooth * (gap + math.sqrt(gap * sigma)) * math.sqrt(factor / (sampled * t))
            + (smooth * gap) ** (2 / 3) * (((smooth + slope) * sigma + floor / q) / t**2) ** (1 / 3)
            + (smooth + slope) * gap / t + gap * (smooth**2 * (smooth + slope) / t**2) ** (1 / 3)
        )  # fmt: skip
        ratio = max(ratio, gradient_bound(problem, sampled, q, t, a) / stated)
        if factor > 0:
            sampling = smooth * (gap + math.sqrt(gap * sigma)) * math.sqrt(factor / (sampled * t))
            of_noise = math.sqrt(smooth * gap * (floor + slope * sigma + slope * gap) / (sampled * q * t))
            predicted = math.sqrt(factor * q / nu)
            balance = max(balance, abs(sampling / of_noise / predicted - 1))
    balanced = "sampling term over noise term, over sqrt(I_S Q / nu), minus 1"
    return [
        Check("Step size (22)", "(20), (22)", "alpha of (22) over the limit (20), largest", 1.0, over),
        Check("Step size (22)", "Appendix G", "(1 + a)^T under (20), largest", 3.0, growth),
        Check("Step size (22)", "(24)", "(21) over the sum of the terms of (24), largest; O(1)", 60.0, ratio),
        Check("nu", "Remark 3", f"{balanced}, nu = {nu:.4g}", 0.0, balance, "="),
    ]


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per check."""
    assert spec.problem
    problem = Problem(*bind("problem", spec.problem))
    rows = assumptions(problem) + lemmas(subset(problem, params.clients)) + theorem_2(problem)
    return checks.table(rows)
