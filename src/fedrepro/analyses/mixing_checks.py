"""Checks of Lemmas 5, 7 and 11 and of Section 6.5.1 of the FedSWE paper, from exact values.

Where a statement fails, one row holds the smallest example that we know.
"""

import itertools
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Gt, Le
from numpy.typing import NDArray

from fedrepro.core import absence, checks, mixing
from fedrepro.core.checks import Check
from fedrepro.core.job import Inputs
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ()
SCHEMA = checks.SCHEMA
PATTERN = (1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1)  # delta = 2/7 with P = 7, windows that differ


@dataclass(frozen=True)
class Params:
    """``clients``: values of m; ``coefficients``: of k; ``probability``: of p."""

    clients: tuple[Count, ...] = (2, 5, 10)
    coefficients: tuple[Annotated[float, Gt(0)], ...] = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    probability: tuple[Annotated[float, Gt(0), Le(1)], ...] = (0.1, 0.5, 0.9, 1.0)


def rho(windows: NDArray[np.float64], k: float) -> float:
    """``lambda_2(E[V^T V])``, exact."""
    return mixing.second_eigenvalue(mixing.expected_square(windows, k))


def uniform(clients: int, p: float) -> NDArray[np.float64]:
    """One round in which every client has probability p."""
    return np.full((1, clients), p)


def lemma_11(params: Params) -> list[Check]:
    """(20) as printed and repaired, on a grid and in the smallest example; (21) for P = 20."""
    rows = []
    cases = [(m, k, p) for m in params.clients for k in params.coefficients for p in params.probability]
    norms = [rho(uniform(m, p), k) for m, k, p in cases]
    for name, power in (("(20) as printed", 2), ("(20) with (m + k)^4", 4)):
        bounds = [1 - 10 ** mixing.log_gap(m, k, p, power) for m, k, p in cases]
        excess = [norm - bound for norm, bound in zip(norms, bounds, strict=True)]
        bad = sum(value > 1e-9 for value in excess)
        text = f"{name}: largest rho_k - bound, above 0 in {bad} of {len(cases)} cases"
        rows.append(Check("Spectral norm, P = 1", "Lemma 11", text, 0.0, max(excess)))
    bound, norm = 1 - 10 ** mixing.log_gap(2, 1, 1.0, 2), rho(uniform(2, 1.0), 1)
    text = "(20) as printed, m = 2, k = 1, p = 1: rho_k"
    rows.append(Check("Spectral norm, P = 1", "Lemma 11", text, bound, norm))
    windows = mixing.group_windows((0.5, 0.5), 10, 10)
    gap = mixing.log_gap(10, 10, 0.25, 4 * len(windows) + 2)
    text = "(21), m = k = 10, p = 0.5: log10(1 - bound) <= log10(1 - rho_k)"
    rows.append(Check("Spectral norm, P = 20", "Lemma 11", text, float(np.log10(1 - rho(windows, 10))), gap))
    beyond, count = [], 0
    for m, k, p in itertools.product((2, 4, 10, 100), (1.0, 10.0, 100.0), (0.1, 0.5, 0.9)):
        windows = mixing.group_windows((p, p), 10, 2)  # of the two groups
        gap = mixing.log_gap(m, k, p / 2, 4 * len(windows) + 2)
        norm = mixing.second_eigenvalue(mixing.expected_square_of_groups(windows, m // 2, k))
        beyond.append(gap - float(np.log10(1 - norm)))
        count += 1
    text = f"(21), m to 100, k to 100: largest log10(1 - bound) - log10(1 - rho_k) of {count} cases"
    rows.append(Check("Spectral norm, P = 20", "Lemma 11", text, 0.0, max(beyond)))
    return rows


def section_651(params: Params) -> list[Check]:
    """What happens as k and the period grow."""
    rows = []
    place, most = "Section 6.5.1", max(params.clients)
    steps = [
        rho(uniform(most, p), b) - rho(uniform(most, p), a)
        for p in params.probability
        for a, b in zip(params.coefficients[:-1], params.coefficients[1:], strict=True)
    ]
    text = f"m = {most}, P = 1: largest increase of rho_k from one k to the next"
    rows.append(Check("rho_k falls in k", place, text, 0.0, max(steps)))
    for p in params.probability:
        text = f"m = {most}, P = 1, p = {p:g}: rho_k for k to infinity"
        limit = rho(uniform(most, p), 1e9)
        rows.append(Check("Limit of rho_k", place, f"{text}, as stated", 0.0, limit, "=", 0.01))
        rows.append(Check("Limit of rho_k", "own derivation", f"{text}, 1 - p", 1 - p, limit, "=", 1e-6))
    periods = {2 * each: rho(mixing.group_windows((0.5, 0.5), each, most), 1) for each in (1, 5, 10, 50)}
    for a, b in itertools.pairwise(periods):
        text = f"two groups, p = 0.5, k = 1, from P = {a} to {b}: rho_k, smaller as stated"
        rows.append(Check("Longer periods", "Example 16", text, periods[a], periods[b]))
        one, two = periods[a] ** (1 / a), periods[b] ** (1 / b)
        text = f"the same, P = {a} to {b}: rho_k^(1/P), contraction per round: worse, that is larger"
        rows.append(Check("Longer periods", "Example 16", text, one, two, ">="))
    windows = mixing.group_windows((0.5, 0.5), 10, most)
    rows.append(
        Check("Interpolation needed", "Section 6.5.2", "two groups, k = 0: rho_0", 1.0, rho(windows, 0), "=")
    )
    worst = max(rho(uniform(most, p), 0) for p in params.probability)
    text = "P = 1, k = 0: largest rho_0 over p is below 1"
    rows.append(Check("Interpolation optional", "Section 6.5.3", text, 1 - 1e-6, worst))
    return rows


def lemma_5() -> list[Check]:
    """The contraction of B V, in expectation lambda_2(E[V V^T]), against both readings of the square."""
    windows = np.array([[1.0, 0.0], [0.0, 0.5]])
    contraction = rho(windows[::-1], 1)
    text = "m = 2, k = 1, p = 1 in round 0, 1/2 in round 1: largest contraction of B V"
    rows = [
        Check("Contraction of a window", "Lemma 5", f"{text}, for V^T V", rho(windows, 1), contraction),
        Check("Contraction of a window", "Lemma 5", f"{text}, for V V^T", 0.625, contraction, "="),
    ]
    for words, p in (("equal groups", (0.5, 0.5)), ("unequal groups", (0.9, 0.3))):
        beyond = []
        for k, each in itertools.product((1.0, 10.0, 100.0), (0, 1, 10)):
            windows = mixing.group_windows(p, each, 4) if each else np.array([[*p, *p]])
            beyond.append(rho(windows[::-1], k) - rho(windows, k))
        text = (
            f"m = 4, {words}, P = 1, 2, 20, k = 1 to 100: largest contraction of B V minus rho_k, for V^T V"
        )
        rows.append(Check("Contraction of a window", "Lemma 5", text, 0.0, max(beyond)))
    return rows


def lemma_7() -> list[Check]:
    """A deterministic pattern that meets Assumption 1 and exceeds (15) and (16) inside a window."""
    column = np.tile(np.array(PATTERN, dtype=float), 7)
    delta, window = 2 / 7, 7
    rows = []
    found = float(absence.smallest_window(column, delta))
    text = "active 2 of 7 rounds, first and last in turn: P_delta for delta = 2/7"
    rows.append(Check("Absence inside a window", "Lemma 7", text, 7.0, found, "="))
    moments = absence.moments(column[:, None])
    for name, moment, bound in zip(("(15)", "(16)"), moments, absence.lemma_7(window, delta), strict=True):
        start, worst = float(moment[::window].max()), float(moment.max())
        check, place, text = "Absence inside a window", f"Lemma 7, {name}", "the same pattern"
        rows.append(Check(check, place, f"{text}, rounds t = 0 mod P", bound, start))
        rows.append(Check(check, place, f"{text}, all rounds", bound, worst))
    repaired = 2 * window - 1 + 1 / delta
    text = "the same pattern, all rounds, with 2 P - 1 + 1 / delta"
    rows.append(Check("Absence inside a window", "own derivation", text, repaired, float(moments[0].max())))
    return rows


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per check."""
    return checks.table(lemma_5() + lemma_7() + lemma_11(params) + section_651(params))
