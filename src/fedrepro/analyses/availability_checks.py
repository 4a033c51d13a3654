"""Checks of Proposition 4 and Lemma 7 of the FedSWE paper under one dynamics of availability.

Proposition 4: the echoes of the algorithm's own plugin are read off its server model. Client i reports the
innovation e_i, a unit vector, so that coordinate i of what the server adds is its echo over |A| + k.

Lemma 7: exact moments of t - tau_i(t) in every round, beside a drawn trace, and the largest ratio to the
right-hand sides of (15) and (16) over all rounds, clients and windows P_delta.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
import torch
from annotated_types import Ge, Le
from numpy.typing import NDArray

from fedrepro.core import absence, checks, quadratics
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.availability import participation, probabilities
from fedrepro.core.checks import Check
from fedrepro.core.job import Inputs, bind
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("algorithm", "dynamics", "rounds")
SCHEMA = checks.SCHEMA
GROUPS = 2  # of the dynamics that have groups; every base rate is in each of them


@dataclass(frozen=True)
class Params:
    """``base``: probabilities; ``copies``: clients of each in each half; ``windows``: candidates for P."""

    base: tuple[Annotated[float, Ge(0), Le(1)], ...] = (0.1, 0.5, 0.9)
    copies: Count = 100
    windows: tuple[Count, ...] = (1, 2, 20, 100)


def echo_sums(algorithm: Algorithm, active: NDArray[np.bool_]) -> tuple[int, float]:
    """Pairs of a client active in round R - 1 and R, and the largest |sum of its echoes - R| among them."""
    clients = active.shape[1]
    state = algorithm.init(torch.zeros(clients, dtype=torch.float64), clients)
    total = torch.zeros(clients, dtype=torch.float64)
    pairs, worst = 0, 0.0
    for t, row in enumerate(active):
        cohort = quadratics.cohort(t, row)
        members = cohort.clients
        before = algorithm.start(state, cohort)
        algorithm.round(state, cohort, torch.eye(clients, dtype=torch.float64)[members])
        if len(members):
            added = len(members) * state["server"] - before.sum(0)
            total[members] += added[members]
            worst = max(worst, float((total[members] - (t + 1)).abs().max()))
            pairs += len(members)
    return pairs, worst


def largest_ratios(probability: NDArray[np.float64], windows: tuple[int, ...]) -> tuple[float, float]:
    """Exact moments over the bounds (15) and (16), at most over clients, rounds and windows."""
    first, second = absence.moments(probability)
    ratios = [(0.0, 0.0)]
    for client, column in enumerate(probability.T):
        for window in windows:
            if window > len(column) // 2 or not (delta := _delta(column, window)):
                continue
            one, two = absence.lemma_7(absence.smallest_window(column, delta), delta)
            ratios.append((first[:, client].max() / one, second[:, client].max() / two))
    return max(r[0] for r in ratios), max(r[1] for r in ratios)


def _delta(column: NDArray[np.float64], window: int) -> float:
    return float(absence.lowest_average(column[:, None], window)[0])


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """Five rows."""
    assert spec.algorithm and spec.dynamics and spec.rounds
    dynamics, own = bind("dynamics", spec.dynamics)
    kinds = len(params.base)
    base = np.tile(np.asarray(params.base), GROUPS * params.copies)
    probability = probabilities(dynamics, own, base, spec.rounds)
    active = participation(dynamics, own, probability, spec.seed, "")
    shown = np.r_[:kinds, len(base) // 2 : len(base) // 2 + kinds]  # each base rate in each half
    pairs, worst = echo_sums(Algorithm(*bind("algorithm", spec.algorithm)), active)
    text = f"largest error of the sum of echoes, {pairs} pairs (client, R)"
    rows = [Check("Echoes sum to R", "Proposition 4", text, 0.0, worst, "=")]
    ratios = largest_ratios(probability[:, shown], params.windows)
    away = absence.absences(active)
    for power, (moment, bound, ratio) in enumerate(
        zip(absence.moments(probability), ("(15)", "(16)"), ratios, strict=True), start=1
    ):
        what = "mean" if power == 1 else "mean square"
        text = f"largest {what} of t - tau over its bound"
        rows.append(Check("Absence under the dynamics, all rounds", f"Lemma 7, {bound}", text, 1.0, ratio))
        found = (away**power).mean(0)
        error = 4 * (found - moment.mean(0)).std(ddof=1) / np.sqrt(len(base))
        text = f"{what} of t - tau, exact, and of a drawn trace within 4 standard errors"
        exact, drawn = float(moment.mean()), float(found.mean())
        check = "Absence, exact and drawn"
        rows.append(Check(check, "own derivation", text, exact, drawn, "=", max(error, 1e-9)))
    return checks.table(rows)
