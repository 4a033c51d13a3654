"""Checks of what the FedSWE paper says of Algorithm 1, made on the algorithm's own plugin.

The augmented system of Section 6.2 with k virtual clients, the matrix W of (9), the weights of (6), and
Proposition 17 with its limit (30).
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import torch
from annotated_types import Ge
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.core import absence, checks, quadratics
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.checks import Check
from fedrepro.core.job import Inputs, bind
from fedrepro.core.mixing import mixing
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("algorithm",)
SCHEMA = checks.SCHEMA
CLIENTS, SIZE = 6, 5
STEP = 0.05


@dataclass(frozen=True)
class Params:
    """``coefficients``: k; ``rounds`` of the augmented system; ``limit_rounds`` of Proposition 17."""

    coefficients: tuple[Annotated[int, Ge(1)], ...] = (1, 3, 100)
    rounds: Count = 60
    limit_rounds: Annotated[int, Ge(400)] = 4000


class _Rule:
    """The algorithm at any k, on random quadratics with random availability."""

    def __init__(self, plugin: Any, own: Any, rng: np.random.Generator):
        self._plugin, self._own, self.rng = plugin, own, rng

    def at(self, k: float, clients: int) -> Algorithm:
        return Algorithm(self._plugin, replace(self._own, k_over_m=k / clients))

    def normal(self, *shape: int) -> Tensor:
        return torch.from_numpy(self.rng.standard_normal(shape))

    def trace(self, rounds: int, clients: int) -> NDArray[np.bool_]:
        """Available half of the time; rounds 3 and 4 are empty."""
        active = self.rng.random((rounds, clients)) < 0.5
        active[3:5] = False
        return active


def virtual_clients(rule: _Rule, k: int, rounds: int) -> float:
    """Largest difference of the server's models of line 17 with k, and of k = 0 with k virtual clients."""
    active, minima, start = rule.trace(rounds, CLIENTS), rule.normal(CLIENTS, SIZE), rule.normal(SIZE)
    steps = torch.full((rounds, SIZE), STEP, dtype=torch.float64)
    plain = quadratics.run(rule.at(k, CLIENTS), minima, active, steps, start, local_steps=3)
    augmented = quadratics.run(
        rule.at(0, CLIENTS + k),
        torch.cat([minima, torch.zeros(k, SIZE, dtype=torch.float64)]),
        np.concatenate([active, np.ones((rounds, k), dtype=bool)], axis=1),
        steps,
        start,
        local_steps=3,
        curvature=torch.cat([torch.ones(CLIENTS), torch.zeros(k)]).double(),
    )
    differences = [
        float((one["server"] - two["server"]).abs().max()) for one, two in zip(plain, augmented, strict=True)
    ]
    return max(differences)


def is_mixing(rule: _Rule, k: int) -> float:
    """Largest difference of a round without innovation from multiplication with W, over all active sets."""
    worst = 0.0
    for number in range(2**CLIENTS):
        active = (number >> np.arange(CLIENTS)) & 1 == 1
        algorithm = rule.at(k, CLIENTS)
        state = algorithm.init(rule.normal(SIZE), CLIENTS)
        state["local"].copy_(rule.normal(CLIENTS, SIZE))
        before = torch.cat([state["local"], state["server"].repeat(k, 1)])
        cohort = quadratics.cohort(0, active)
        algorithm.round(state, cohort, torch.zeros(len(cohort.clients), SIZE, dtype=torch.float64))
        after = torch.cat([state["local"], state["server"].repeat(k, 1)])
        product = torch.from_numpy(mixing(active, np.ones(k))) @ before
        worst = max(worst, float((after - product).abs().max()))
    return worst


def doubly_stochastic(largest_m: int, largest_k: int) -> float:
    """Largest violation by W over all active sets: row or column sums off 1, or an entry below 0."""
    worst = 0.0
    for m in range(1, largest_m + 1):
        sets = (np.arange(2**m)[:, None] >> np.arange(m)) & 1 == 1
        for k in range(largest_k + 1):
            w = mixing(sets, np.ones(k))
            sums = np.concatenate([w.sum(1), w.sum(2)])
            worst = max(worst, float(abs(sums - 1).max()), float(-w.min()))
    return worst


def squared_gap(rule: _Rule, minima: Tensor, k: float, steps: Tensor) -> float:
    """Squared gradient of F after the last round, halves of the clients active in turn, even rounds first."""
    clients = len(minima)
    half = np.arange(clients) >= clients // 2
    active = (np.arange(len(steps))[:, None] % 2 == 1) == half
    start = torch.full((minima.shape[1],), 50.0, dtype=torch.float64)
    *_, last = quadratics.run(rule.at(k, clients), minima, active, steps, start)
    return float((last["server"] - minima.mean(0)).square().sum())


def proposition_17(rule: _Rule, rounds: int) -> list[Check]:
    """Assumption 1, the limit (30) for k = 0, and what becomes of the gradient with k = 1."""
    probability = (np.arange(40)[:, None] % 2 == np.arange(2)).astype(float)
    window = float(max(absence.smallest_window(column, 0.5) for column in probability.T))
    place = "Proposition 17"
    rows = [Check("Alternating groups", f"{place} (i)", "P_delta for delta = 1/2", 2.0, window, "=")]
    constant = torch.full((rounds, 1), STEP, dtype=torch.float64)
    for name, minima in (
        ("two clients, u = (100, -100)", torch.tensor([[100.0], [-100.0]]).double()),
        ("ten clients, random u", 100 * rule.normal(10, 1)),
    ):
        half = len(minima) // 2
        stated = float(((minima[:half].sum(0) - minima[half:].sum(0)) / len(minima)).square().sum())
        text = f"k = 0, {name}: squared gradient"
        found = squared_gap(rule, minima, 0, constant)
        rows.append(Check("Alternating groups", "(30)", text, stated, found, "=", 1e-6 * stated))
    pair = torch.tensor([[100.0], [-100.0]]).double()
    cycle = 100 * STEP / (1 + STEP)
    found = squared_gap(rule, pair, 1, constant) ** 0.5
    text = f"k = 1, constant step {STEP}: size of the gradient, 100 c / (1 + c)"
    rows.append(Check("Alternating groups", "own derivation", text, cycle, found, "=", 1e-6))
    text = f"k = 1, constant step {STEP}: size of the gradient, said to tend to 0"
    rows.append(Check("Alternating groups", "Figure 5 (b)", text, 0.0, found, "=", 0.01))
    decaying = STEP / (1 + torch.arange(rounds, dtype=torch.float64)[:, None] / 200)
    text = f"k = 1, decaying step, {rounds} rounds: size of the gradient below 1"
    found = squared_gap(rule, pair, 1, decaying) ** 0.5
    rows.append(Check("Alternating groups", "Figure 5 (b)", text, 1.0, found))
    return rows


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per check."""
    assert spec.algorithm
    rule = _Rule(*bind("algorithm", spec.algorithm), stream(spec.seed, "trace", "", 1))
    rows = []
    for k in params.coefficients:
        text = f"k = {k}: server with k against k virtual clients, {params.rounds} rounds"
        found = virtual_clients(rule, k, params.rounds)
        rows.append(Check("Augmented system = line 17", "Section 6.2", text, 0.0, found, "="))
    for active in (1, 3):
        text = f"k = 1, {active} active: sum of the weights as printed"
        found = active / (active + 1) + 1 - 1 / (active + 1)
        rows.append(Check("Weights sum to one", "(6)", text, 1.0, found, "="))
    text = "k = 3, all active sets of 6: a round without innovation against W"
    rows.append(Check("W is the algorithm's", "(9)", text, 0.0, is_mixing(rule, 3), "="))
    text = "all active sets, m to 6, k to 4: largest violation"
    rows.append(Check("W doubly stochastic", "(9)", text, 0.0, doubly_stochastic(6, 4), "="))
    return checks.table(rows + proposition_17(rule, params.limit_rounds))
