"""What the FedSWE paper says of its auxiliary sequence z: Lemmas 9 and 21, Proposition 10, and orders in T.

Objectives are quadratics with noisy gradients, whose constants L, sigma, beta and zeta are known. Lemma 9 is
checked at the states of runs of Algorithm 1 by its own plugin, with an expectation in closed form; the bounds
on averages over rounds with exact second moments (`fedrepro.core.auxiliary`). Where a statement fails, one row
holds the smallest example that we know.
"""

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fedrepro.core import absence, auxiliary, checks, mixing, quadratics
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.auxiliary import Averages, Rates
from fedrepro.core.checks import Check
from fedrepro.core.job import Inputs, bind
from fedrepro.core.local_sgd import Quadratics
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("algorithm",)
SCHEMA = checks.SCHEMA
MANY, FEW = 40, 4  # clients m: of the runs, and where all active sets are enumerated
DIMENSION = 3
LOCAL_STEPS = 4  # s
NOISE = 1.0  # sigma
LONG = 16  # factor between the two horizons of (23) and (27)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``rounds``: length of the runs at whose states Lemma 9 is checked, and of the averages of its successors."""

    rounds: Count = 200


class Path(NamedTuple):
    """A run: x_i (T, m, d), the server (T, d) and t - tau_i (T, m) at the start of every round.

    ``active``, ``probability``: (T, m); ``innovations``: x_i^(t,s) - x_i^t, noise included, (T, m, d), used where active.
    """

    local: Floats
    server: Floats
    absence: NDArray[np.int64]
    active: NDArray[np.bool_]
    probability: Floats
    innovations: Floats


class Round(NamedTuple):
    """``left``: E[F~(zbar^t+1) - F~(zbar^t)]; ``gain``: eta_l eta_g s |grad F~|^2 / 3; ``errors``: the other terms."""

    left: float
    gain: float
    errors: float

    @property
    def ratio(self) -> float:
        """Of the left side, with the gain brought to it, to the errors; at most 1 if Lemma 9 holds."""
        return (self.left + self.gain) / self.errors


def quadratic(clients: int, rng: np.random.Generator, noise: float = NOISE) -> Quadratics:
    """Heterogeneous in minimisers and curvatures; L = 1."""
    minima = rng.standard_normal((clients, DIMENSION))
    return Quadratics(np.linspace(0.5, 1.0, clients), minima, np.full(clients, 1 / clients), noise)


def simulate(
    bound: tuple[Any, Any], problem: Quadratics, rates: Rates, probability: Floats, rng: np.random.Generator
) -> Path:
    """A run of the plugin ``bound``, with its parameters, from far away."""
    rounds, m = probability.shape
    plugin, own = bound
    algorithm = Algorithm(plugin, replace(own, k_over_m=rates.virtual / m))
    active = rng.random((rounds, m)) < probability
    scale = np.sqrt(rates.noise(problem) / DIMENSION)[:, None]
    noise = scale * rng.standard_normal((rounds, m, DIMENSION))
    start = np.full(DIMENSION, 3.0)
    steps = torch.full((rounds, DIMENSION), rates.local, dtype=torch.float64)
    given = [torch.from_numpy(array) for array in (problem.minima, start, problem.curvature, noise)]
    states = quadratics.run(
        algorithm, given[0], active, steps, given[1], rates.steps, given[2], given[3], rates.server
    )
    local, server = [np.tile(start, (m, 1))], [start]
    for state in states:
        local.append(state["local"].numpy().copy())
        server.append(state["server"].numpy().copy())
    before = np.stack(local[:-1])
    innovations = rates.moved(problem.curvature)[:, None] * (problem.minima - before) + noise
    gone = absence.absences(active)
    return Path(before, np.stack(server[:-1]), gone, active, probability, innovations)


def recursion_error(problem: Quadratics, rates: Rates, path: Path) -> float:
    """Largest difference between z of Definition 6 and (Z - eta_l eta_g G~) W of (18) and (19), k whole."""
    m, k = problem.clients, int(rates.virtual)
    z = auxiliary.auxiliary(problem, rates, path.local, path.absence)
    everyone = np.concatenate([z, np.repeat(path.server[:, None], k, 1)], axis=1)
    gradients = problem.curvature[:, None] * (path.local - problem.minima)
    echoed = np.where(path.active, path.absence, 0)[..., None]
    # sum_r grad l_i = -innovation / eta_l
    own = echoed * (-path.innovations / rates.local - rates.steps * gradients) + rates.steps * gradients
    moved = everyone.copy()
    moved[:, :m] -= rates.local * rates.server * own
    mixed = mixing.mixing(path.active, np.ones(k)) @ moved
    return float(np.abs(mixed[:-1] - everyone[1:]).max())


def coefficients(clients: int, rates: Rates, delta_max: float) -> Floats:
    """Of the five error terms of Lemma 9 for L = sigma = 1, as stated; of sums over clients.

    They multiply (t - tau)^2 twice, (t - tau)^2 ||grad F_i(x_i)||^2, ||x_i - z_i||^2 and ||z_i - zbar||^2.
    """
    total, step, local = clients + rates.virtual, rates.local * rates.server, rates.local**2
    progress, s = rates.progress, rates.steps
    return np.array(
        [
            2 * progress * step * delta_max / total**2,
            2 * progress * 9 * clients * local * s / total**2,
            65 * progress * local * s**2 / total,
            4 * progress / total,
            progress / 2 / total,
        ]
    )


def proved(clients: int, rates: Rates, delta_max: float, repaired: bool) -> Floats:
    """The same as the proof has them: in its last line, or repaired.

    ``repaired``: (A.II) by one use of Young's inequality on the sum over the m regular clients, then Jensen's,
    which gives m / M^2 for 1 / M, as (B.II) has it before it is rounded up.
    """
    total, found = clients + rates.virtual, coefficients(clients, rates, delta_max)
    share, growth = clients / total, 3 + 2 * rates.progress
    unit = rates.progress * rates.local**2 * rates.steps / total
    if repaired:
        found[1:4] = 5 * growth * unit * share, 20 * growth * unit * rates.steps * share, rates.progress * growth / total
    else:
        found[1] = 17 * unit
    return found


def descent(
    problem: Quadratics, rates: Rates, local: Floats, server: Floats, gone: Floats, probability: Floats,
    delta_max: float,
) -> Round:  # fmt: skip
    """Lemma 9 at one state, L = 1.

    zbar moves by -1/M times the sum of ``1[i in A] D_i (g_i + noise) + eta_l eta_g s grad F_i(x_i)`` with g_i the
    echoed innovation without noise minus ``eta_l eta_g s grad F_i(x_i)``: clients and noise are independent.
    """
    m, total = problem.clients, problem.clients + rates.virtual
    z = auxiliary.auxiliary(problem, rates, local, gone)
    mean = (z.sum(0) + rates.virtual * server) / total
    a = problem.curvature[:, None]
    gradient = (a * (mean - problem.minima)).sum(0) / total
    own = a * (local - problem.minima)
    drift = rates.server * rates.moved(problem.curvature)[:, None] * (local - problem.minima) - rates.progress * own
    expected = -((probability * gone) @ drift + rates.progress * own.sum(0)) / total
    squared = (1 - probability) * (drift**2).sum(1) + rates.server**2 * rates.noise(problem)
    variance = float(probability * gone**2 @ squared) / total**2
    left = gradient @ expected + float(a.sum()) / total / 2 * (expected @ expected + variance)
    squares = gone**2
    sums = np.array(
        [
            problem.noise**2 * squares.sum(),
            problem.noise**2 * squares.sum(),
            squares @ (own**2).sum(1),
            ((local - z) ** 2).sum(),
            ((z - mean) ** 2).sum(),
        ]
    )
    errors = float(coefficients(m, rates, delta_max) @ sums)
    return Round(float(left), rates.progress / 3 * float(gradient @ gradient), errors)


def moving(clients: int, rounds: int) -> Floats:
    """Probabilities (T, m) that differ between clients and move like the paper's sine."""
    wave = 1 + 0.3 * (np.sin(2 * np.pi * np.arange(rounds) / 20) - 1)
    return np.linspace(0.1, 0.9, clients) * wave[:, None]


def lemma_9(bound: tuple[Any, Any], params: Params, seed: int) -> list[Check]:
    """The recursion of z, both sides of Lemma 9 along runs, and what its proof implies."""
    problem = quadratic(MANY, stream(seed, "oracle", "", 0))
    probability = moving(MANY, params.rounds)
    delta_max, wrong, rows = float(probability.max()), 0.0, []
    for k in (0, 1, MANY // 20, MANY):
        ratios = []
        for share, server in product((1.0, 0.1), (0.5, 1.0, 10.0)):
            rates = Rates(share / (8 * LOCAL_STEPS * server), server, LOCAL_STEPS, k)
            path = simulate(bound, problem, rates, probability, stream(seed, "trace", "", 4))
            wrong = max(wrong, recursion_error(problem, rates, path))
            ratios += [
                descent(problem, rates, *state, delta_max).ratio
                for state in zip(path.local, path.server, path.absence, probability, strict=True)
            ]
        text = f"m = {MANY}, k = {k}, {len(ratios)} states, eta_l <= 1 / (4 s L): left side and gain over the errors"
        rows.append(Check("Descent", "Lemma 9", text, 1.0, max(ratios)))
    text = "largest difference between Definition 6 and the recursion of (18) and (19)"
    rows.insert(0, Check("Auxiliary sequence", "(10)-(14), (18), (19)", text, 0.0, wrong, "="))
    alone = Quadratics(np.ones(1), np.zeros((1, 1)), np.ones(1), 0.0)
    rates = Rates(3.0, 1 / 480, 20, 0)
    found = descent(alone, rates, np.ones((1, 1)), np.ones(1), np.ones(1), np.ones(1), 1.0).ratio
    text = "m = s L = 1 in turn, k = 0, s = 20, eta_l = 3, eta_l eta_g = 1 / (8 s L): left side and gain over the errors"
    rows.append(Check("Descent, any eta_l", "Lemma 9", text.replace("m = s L = 1 in turn", "m = L = 1, no noise"), 1.0, found))
    for repaired, place in ((False, "proof of Lemma 9 (l. 1559)"), (True, "own derivation")):
        for k in (0, 1, MANY // 20, MANY):
            rates = Rates(1 / (8 * LOCAL_STEPS), 1.0, LOCAL_STEPS, k)
            given = proved(MANY, rates, delta_max, repaired) / coefficients(MANY, rates, delta_max)
            text = f"m = {MANY}, k = {k}: largest coefficient of the {'repaired proof' if repaired else 'last line'} over that stated"
            rows.append(Check("Proof of the descent", place, text, 1.0, float(given.max())))
    return rows
