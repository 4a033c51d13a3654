"""Closed forms of the FedSWE paper: Remarks 8 and 12, Lemma 11 for many clients, Corollary 14, Appendix H.

Corollary 14 is checked by putting its learning rates into Theorem 13, term by term; the factors that both
hide are numerical constants, so that the terms must be equal.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Gt, Le
from scipy import stats

from fedrepro.core import absence, checks, mixing
from fedrepro.core.checks import Check
from fedrepro.core.job import Inputs
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ()
SCHEMA = checks.SCHEMA
CLASSES = 10
HALF = 0.5


@dataclass(frozen=True)
class Params:
    """What is varied.

    ``clients`` m, ``coefficients`` k, ``probability`` p or delta; ``draws`` of (nu, phi), of ``members``
    clients each; ``alphas`` of the Dirichlet distribution.
    """

    clients: tuple[Count, ...] = (2, 5, 10, 100)
    coefficients: tuple[Annotated[float, Gt(0)], ...] = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    probability: tuple[Annotated[float, Gt(0), Le(1)], ...] = (0.1, 0.5, 0.9, 1.0)
    draws: Count = 1000
    members: Count = 100
    alphas: tuple[Annotated[float, Gt(0)], ...] = (0.05, 0.1, 1.0)


def remark_8(deltas: tuple[float, ...]) -> list[Check]:
    """Special cases of (15) and (16)."""
    rows = []
    for name, bound in zip(("(15)", "(16)"), absence.lemma_7(1, 1.0), strict=True):
        rows.append(Check("Special cases of Lemma 7", "Remark 8", f"{name}, delta = 1", 2.0, bound, "="))
    truth = float(absence.moments(np.ones((20, 1)))[0].max())
    text = "(15) minus the mean of t - tau where everybody is always available"
    loose = absence.lemma_7(1, 1.0)[0] - truth
    rows.append(Check("Special cases of Lemma 7", "Remark 8", text, 1.0, loose, "="))
    for delta in deltas:
        first, second = absence.lemma_7(1, delta)
        text = f"P = 1, delta = {delta:g}"
        check = "Special cases of Lemma 7"
        rows.append(Check(check, "Remark 8", f"(15), {text}: 1 + 1 / delta", 1 + 1 / delta, first, "="))
        rows.append(Check(check, "Remark 8", f"(16), {text}: 2 / delta^2", 2 / delta**2, second, "="))
    return rows


def rho_of_equal_clients(clients: int, k: float, p: float) -> float:
    """rho_k for P = 1 and equal probabilities, for any m, from the binomial number of active clients.

    W is a projection, so that ``E[W^T W] = E[W]``. Vectors that sum to zero over the regular clients have the
    eigenvalue ``E[W_ii] - E[W_ij]``. On vectors that are constant on the regular and on the virtual clients
    E[W] has the eigenvalues 1 and ``1 - (m + k) E[W_iv]``, with v a virtual client. (m at least 2.)
    """
    others = np.arange(clients)
    with_one = p * stats.binom.pmf(others, clients - 1, p)  # i active, beside so many others
    with_two = p**2 * stats.binom.pmf(others[:-1], clients - 2, p)  # i and j active
    virtual = float((with_one / (1 + others + k)).sum())
    shared = float((with_two / (2 + others[:-1] + k)).sum())
    return max(1 - p + virtual - shared, 1 - (clients + k) * virtual)


def lemma_11(params: Params) -> list[Check]:
    """(20) for many clients, as printed and repaired; its fall in k; (20) against (21) at P = 1."""
    rows = []
    most = max(params.clients)
    pairs = list(itertools.product(params.coefficients, params.probability))
    for name, power in (("(20) as printed", 2), ("(20) with (m + k)^4", 4)):
        excess = [
            rho_of_equal_clients(most, k, p) - (1 - 10 ** mixing.log_gap(most, k, p, power)) for k, p in pairs
        ]
        bad = sum(value > 1e-9 for value in excess)
        text = f"m = {most}, {name}: largest rho_k - bound, above 0 in {bad} of {len(pairs)} cases"
        rows.append(Check("Spectral norm, P = 1, many clients", "Lemma 11", text, 0.0, max(excess)))
    cases = list(itertools.product(params.clients, params.probability))
    for name, power in (("(20) as printed", 2), ("(20) with (m + k)^4", 4)):
        rises = [
            10 ** mixing.log_gap(m, a, p, power) - 10 ** mixing.log_gap(m, b, p, power)
            for m, p in cases
            for a, b in itertools.pairwise(params.coefficients)
        ]
        text = f"{name}: largest increase from one k to the next"
        rows.append(Check("Bound (20) falls in k", "Section 6.5.1", text, 0.0, max(rises)))
    grid = list(itertools.product(params.clients, params.coefficients, params.probability))
    for name, power in (("(20) as printed", 2), ("(20) with (m + k)^4", 4)):
        apart = [mixing.log_gap(m, k, p, 6) - mixing.log_gap(m, k, p, power) for m, k, p in grid]
        text = f"{name} - (21) at P = 1: largest difference of log10(1 - bound)"
        rows.append(Check("Bound (20) is the tighter one", "Remark 12", text, 0.0, max(apart)))
    return rows


def corollary_14(rng: np.random.Generator) -> list[Check]:
    """The three terms of Theorem 13 under Corollary 14's learning rates, over the terms of (28)."""
    rows = []
    largest = [1.0, 1.0, 1.0]
    for _ in range(200):
        s, m, k, window, rounds = (float(rng.integers(1, top)) for top in (50, 200, 200, 30, 10**6))
        smooth, sigma, zeta, gap, most = (float(10 ** rng.uniform(-2, 2)) for _ in range(5))
        delta, rho = float(rng.uniform(0.01, 1)), float(rng.uniform(0, 0.99))
        local, server = 1 / (math.sqrt(rounds) * s * smooth), math.sqrt(s * delta * m)
        step, share = local * server, (m + k) / m
        away, spread = (window - 1) ** 2 + 1 / delta**2, 1 + 1 / (1 - rho) ** 2
        theorem = (
            share * gap / (step * s * rounds),
            share * most * step * smooth * sigma**2 / (m + k) * away,
            share * step**2 * s**2 * smooth**2 * window * (sigma**2 + zeta**2) * away * spread,
        )
        scaled = (window - 1) ** 2 * delta**2 + 1
        corollary = (
            share * smooth * gap / math.sqrt(s * delta * m * rounds),
            most / (delta**1.5 * math.sqrt(s * m * rounds)) * scaled * sigma**2,
            share * s * m * window / rounds * (sigma**2 + zeta**2) * scaled * spread,
        )
        ratios = [one / two for one, two in zip(theorem, corollary, strict=True)]
        largest = [max(old, new) for old, new in zip(largest, ratios, strict=True)]
        third = ratios[2] * delta
    for number, ratio in enumerate(largest, start=1):
        text = f"term {number} of (24) over term {number} of (28), largest of 200 draws"
        rows.append(Check("Rates of Corollary 14", "(24), (28)", text, 1.0, ratio, "=", 1e-6))
    text = "term 3 of (24) over term 3 of (28), times delta: (28) lacks a factor 1 / delta"
    rows.append(Check("Rates of Corollary 14", "own derivation", text, 1.0, third, "=", 1e-9))
    return rows


def dirichlet(params: Params, rng: np.random.Generator) -> list[Check]:
    """How many base probabilities lie below one half, and what alpha does to heterogeneity."""
    rows = []
    top = np.where(np.arange(CLASSES) < CLASSES // 2, 1.0, 0.5)
    shares = rng.dirichlet(np.full(CLASSES, 0.1), (params.draws, params.members))
    phi = rng.uniform(0, 1, (params.draws, 1, CLASSES)) * top
    below = ((shares * phi).sum(-1) < HALF).mean(-1)
    text = f"share of {params.draws} draws in which more than half of {params.members} p_i are below 1/2"
    often = float((below > HALF).mean())
    rows.append(Check("Base probabilities below 1/2", "Figure 15", text, 0.95, often, ">="))
    distance = []
    for alpha in params.alphas:
        drawn = rng.dirichlet(np.full(CLASSES, alpha), 10_000)
        distance.append(float(abs(drawn - 1 / CLASSES).sum(1).mean()) / 2)
    for (a, one), (b, two) in itertools.pairwise(zip(params.alphas, distance, strict=True)):
        text = f"mean total variation to the uniform distribution, alpha = {b:g}, against that at {a:g}"
        rows.append(Check("Heterogeneity grows with alpha", "Appendix H.1", text, one, two, ">="))
    return rows


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per check."""
    rng = stream(spec.seed, "partition", "")
    rows = remark_8(params.probability) + lemma_11(params) + corollary_14(rng) + dirichlet(params, rng)
    return checks.table(rows)
