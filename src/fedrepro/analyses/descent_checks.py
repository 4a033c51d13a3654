"""What the FedSWE paper says of k to infinity, of local drift and of the rate of convergence, on quadratics.

FedAvg over active clients stands beside it for the residual that unequal availability leaves.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import torch
from annotated_types import Ge
from numpy.typing import NDArray
from scipy import special

from fedrepro.core import checks, quadratics
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.checks import Check
from fedrepro.core.job import Inputs, bind
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("algorithm",)
SCHEMA = checks.SCHEMA
CLIENTS = 10
DIMENSIONS = 20  # independent copies of a problem
SIZES = (1, 2, 4, 8, 16, 32)  # of m and of s

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``powers``: k = 1, 10, ... up to that power of ten; ``horizons``: numbers of rounds, ascending."""

    powers: Annotated[int, Ge(1)] = 6
    horizons: tuple[Count, ...] = (400, 6400)


def frozen(plugin: Any, own: Any, powers: int, rng: np.random.Generator) -> list[Check]:
    """Distance of the server from its start after 50 rounds, against k: its slope in log k."""
    active = rng.random((50, CLIENTS)) < 0.5
    minima, start = torch.from_numpy(rng.standard_normal((CLIENTS, 5))), torch.zeros(5, dtype=torch.float64)
    steps = torch.full((50, 5), 0.01, dtype=torch.float64)
    ks = 10.0 ** np.arange(powers + 1)
    distance = []
    for k in ks:
        algorithm = Algorithm(plugin, replace(own, k_over_m=float(k) / CLIENTS))
        *_, last = quadratics.run(algorithm, minima, active, steps, start)
        distance.append(float((last["server"] - start).norm()))
    late = ks >= 1000 if powers > 3 else ks >= 1
    found = float(np.polyfit(np.log(ks[late]), np.log(np.asarray(distance)[late]), 1)[0])
    text = "slope of log distance from the start in log k, 50 rounds"
    return [Check("Large k freezes the server", "Section 5.2", text, -1.0, found, "=", 0.05)]


def drift(step: float, s: int, curvature: float, sigma: float, gradient: float) -> tuple[float, float]:
    """Left and right side of Lemma 18 for a quadratic in one dimension; noise has variance sigma^2.

    ``x_r - x = -(1 - q^r) g / a - eta sum_{j<r} q^(r-1-j) xi_j`` with q = 1 - eta a, and the gradients differ
    by a times that.
    """
    q = 1 - step * curvature
    powers = q ** np.arange(s)
    bias = gradient * float((powers - 1).sum())
    # xi_j enters the gradients of the steps r > j
    weights = [curvature * step * float(powers[: s - 1 - j].sum()) for j in range(s)]
    left = bias**2 + sigma**2 * sum(weight**2 for weight in weights)
    return left, drift_bound(step, s, curvature, sigma, gradient)


def drift_bound(step: float, s: int, smooth: float, sigma: float, gradient: float) -> float:
    """Right side of Lemma 18."""
    scale = step**2 * s**3 * smooth**2
    return 5 * scale * sigma**2 + 20 * scale * s * gradient**2


def logistic_drift(step: float, s: int, features: Floats, sigma: float, start: float) -> tuple[float, float]:
    """Both sides of Lemma 18 for a logistic regression in one dimension, by enumeration of the noise.

    ``F(x) = mean_j ln(1 + exp(-b_j x))`` of features b (n,) has L = mean b_j^2 / 4, attained at 0. The noise
    is +- sigma; that of the last step enters no gradient, so that 2^(s - 1) outcomes remain.
    """

    def slope(x: Floats) -> Floats:
        values: Floats = (-features * special.expit(-features * x[:, None])).mean(1)
        return values

    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=s - 1)))
    x = np.full(len(signs), start)
    first, total = slope(x), np.zeros(len(signs))
    for r in range(s):
        gradient = slope(x)
        total += gradient - first
        if r < s - 1:
            x = x - step * (gradient + sigma * signs[:, r])
    smooth = float((features**2).mean()) / 4
    return float((total**2).mean()), drift_bound(step, s, smooth, sigma, float(first[0]))


def lemma_18_logistic() -> Check:
    """Largest ratio of the two sides where eta <= 1 / (4 s L)."""
    features = np.array([1.0, -2.0, 4.0])
    smooth = float((features**2).mean()) / 4
    worst = 0.0
    cases = itertools.product((1, 2, 5, 10), (-3.0, -0.5, 0.0, 0.5, 3.0), (0.0, 0.1, 1.0), (1.0, 0.1))
    for s, start, sigma, share in cases:
        left, right = logistic_drift(share / (4 * s * smooth), s, features, sigma, start)
        worst = max(worst, left / right)
    text = "left over right side, logistic regression, eta <= 1 / (4 s L), all signs of the noise"
    return Check("Local drift", "Lemma 18", text, 1.0, worst)


def lemma_18() -> list[Check]:
    """Largest ratio of the two sides where eta <= 1 / (4 s L), and an example beyond."""
    worst = 0.0
    for s in (1, 2, 5, 10, 50):
        for curvature in (0.1, 1.0, 10.0):
            for sigma, gradient in ((0.0, 1.0), (1.0, 0.0), (1.0, 1.0)):
                for share in (1.0, 0.1):
                    left, right = drift(share / (4 * s * curvature), s, curvature, sigma, gradient)
                    worst = max(worst, left / right)
    text = "left over right side, quadratics, eta <= 1 / (4 s L)"
    rows = [Check("Local drift", "Lemma 18", text, 1.0, worst), lemma_18_logistic()]
    left, right = drift(3.0, 20, 1.0, 0.0, 1.0)
    text = "left over right side at eta = 3, s = 20, L = 1, which the lemma does not exclude"
    rows.append(Check("Local drift without a condition", "Lemma 18", text, 1.0, left / right))
    return rows


def unbiased(algorithm: Algorithm, horizons: tuple[int, ...], rng: np.random.Generator) -> list[Check]:
    """Slope in log T of the mean squared gradient at the clients' mean, steps proportional to T^-1/2."""
    minima = torch.from_numpy(rng.standard_normal((CLIENTS, DIMENSIONS)))
    base = np.linspace(0.1, 0.9, CLIENTS)
    minima += torch.from_numpy(4 * (base[:, None] - base.mean()))  # availability goes with the minimiser
    uniforms = rng.random((max(horizons), CLIENTS))
    wave = 1 + 0.3 * (np.sin(2 * np.pi * np.arange(max(horizons)) / 20) - 1)
    active = uniforms < base * wave[:, None]
    start = torch.zeros(DIMENSIONS, dtype=torch.float64)
    found = []
    for rounds in horizons:
        steps = torch.full((rounds, DIMENSIONS), 1 / math.sqrt(rounds), dtype=torch.float64)
        total = 0.0
        for state in quadratics.run(algorithm, minima, active[:rounds], steps, start):
            mean = state["local"].mean(0) if "local" in state else state["server"]
            total += float((mean - minima.mean(0)).square().mean())
        found.append(total / rounds)
    slope = math.log(found[-1] / found[0]) / math.log(horizons[-1] / horizons[0])
    text = f"slope of the mean squared gradient in log T, T = {horizons[0]} to {horizons[-1]}"
    if "local" in state:
        return [Check("No residual from unequal availability", "Corollary 14", text, -0.4, slope)]
    return [Check("A residual without echoing", "Example 2", text, -0.1, slope, ">=")]


def noisy_rate(clients: int, s: int, rounds: int) -> float:
    """Mean of E|F'|^2 over all rounds with everybody available and k = m, under Corollary 14's rates; exact.

    F_i = x^2 / 2 with gradient noise of variance 1, from x = 1. The server moves by m / (m + k) = 1/2 of the
    mean update, so that the second moment follows a linear recursion.
    """
    local, server = 1 / (math.sqrt(rounds) * s), math.sqrt(s * clients)
    q = (1 - local) ** np.arange(s)
    keep = (1 - 0.5 * server * (1 - (1 - local) ** s)) ** 2
    noise = 0.25 * server**2 * local**2 * float((q**2).sum()) / clients
    limit = noise / (1 - keep)
    powers = keep ** np.arange(rounds)
    return float((limit + (1 - limit) * powers).mean())


def speedup() -> list[Check]:
    """Slopes of the mean squared gradient in log m and in log s, T = 10^4."""
    rows = []
    for name in ("m", "s"):
        values = [noisy_rate(v, 8, 10**4) if name == "m" else noisy_rate(8, v, 10**4) for v in SIZES]
        slope = float(np.polyfit(np.log(SIZES), np.log(values), 1)[0])
        text = f"slope of the mean squared gradient in log {name}, {SIZES[0]} to {SIZES[-1]}, the other at 8"
        rows.append(Check("Linear speedup", "Remark 15", text, -0.5, slope, "=", 0.1))
    return rows


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per check."""
    assert spec.algorithm
    plugin, own = bind("algorithm", spec.algorithm)
    rows = unbiased(Algorithm(plugin, own), params.horizons, stream(spec.seed, "trace", "", 2))
    if hasattr(own, "k_over_m"):
        rows += frozen(plugin, own, params.powers, stream(spec.seed, "trace", "", 3)) + lemma_18() + speedup()
    return checks.table(rows)
