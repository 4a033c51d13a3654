"""What the FedSWE paper says of its auxiliary sequence z: Lemmas 9 and 21, Proposition 10, and orders in T.

Objectives are quadratics with noisy gradients, whose constants L, sigma, beta and zeta are known. Lemma 9 is
checked at the states of runs of Algorithm 1 by its own plugin, with an expectation in closed form; the
bounds on averages over rounds with exact second moments (`fedrepro.core.auxiliary`). Where a statement
fails, one row holds the smallest example that we know.
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
from fedrepro.core.spec import AnalysisSpec

NEEDS = ("algorithm",)
SCHEMA = checks.SCHEMA
CLIENTS, FEW = (1, 4, 40), 4  # m of the runs, and where all active sets are enumerated
DIMENSION = 3
LOCAL_STEPS = 4  # s
NOISE = 1.0  # sigma
ROUNDS = 200  # of the runs
HORIZONS = (200, 20000)  # T of the averages
LONG = 16  # factor between the two horizons of (23) and (27)

Floats = NDArray[np.float64]
RATIO = "left side and gain over the errors"
BOUNDS = (
    ("Approximation error", "Proposition 10", "mean approximation error"),
    ("Consensus error of z", "Lemma 21", "mean consensus error"),
)
WORDS = {
    "approximation": "approximation error", "consensus": "consensus error of z",
    "consensus_x": "consensus error of x", "gradient": "squared gradient at zbar",
    "gradient_x": "squared gradient at xbar",
}  # fmt: skip
PAIRS = (  # of averages that the paper says are of one order
    ("(23)", "approximation", "consensus"),
    ("(23)", "approximation", "gradient"),
    ("(23)", "consensus", "gradient"),
    ("(27)", "consensus_x", "gradient"),
    ("(27)", "gradient_x", "gradient"),
)


class Setting(NamedTuple):
    """``probability``: p_i^t over one period (P, m), which is P_delta for the smallest average ``delta``."""

    name: str
    probability: Floats

    @property
    def delta(self) -> float:
        """The delta of Assumption 1."""
        return float(self.probability.mean(0).min())

    def rho(self, k: float) -> float:
        """rho_k, exact."""
        return mixing.second_eigenvalue(mixing.expected_square(self.probability, k))


SETTINGS = (
    Setting("P = 1", np.array([[0.2, 0.4, 0.6, 0.8]])),
    Setting("P = 2", np.array([[0.1, 0.3, 0.9, 0.9], [0.5, 0.7, 0.1, 0.3]])),
)


@dataclass(frozen=True)
class Params:
    """The statements have no parameters."""


class Path(NamedTuple):
    """A run: x_i (T, m, d), the server (T, d) and t - tau_i (T, m) at the start of every round.

    ``active``: (T, m); ``innovations``: x_i^(t,s) - x_i^t with noise, (T, m, d), of use where active.
    """

    local: Floats
    server: Floats
    absence: Floats
    active: NDArray[np.bool_]
    innovations: Floats


class Round(NamedTuple):
    """Lemma 9 at one state.

    ``left``: E[F~(zbar^t+1) - F~(zbar^t)]; ``gain``: eta_l eta_g s |grad F~|^2 / 3; ``errors``: the rest.
    """

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
    return Quadratics(np.linspace(1.0, 0.5, clients), minima, np.full(clients, 1 / clients), noise)


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
    gone = absence.absences(active).astype(np.float64)
    return Path(before, np.stack(server[:-1]), gone, active, innovations)


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

    ``repaired``: (A.II) by Young's inequality on the sum over the m regular clients at once, then Jensen's,
    which gives m / M^2 for 1 / M, as (B.II) has it before it is rounded up.
    """
    total, found = clients + rates.virtual, coefficients(clients, rates, delta_max)
    share, growth = clients / total, 3 + 2 * rates.progress
    unit = rates.progress * rates.local**2 * rates.steps / total
    if repaired:
        found[1:4] = (
            5 * growth * unit * share,
            20 * growth * unit * rates.steps * share,
            rates.progress * growth / total,
        )
    else:
        found[1] = 17 * unit
    return found


def descent(
    problem: Quadratics, rates: Rates, local: Floats, server: Floats, gone: Floats, probability: Floats,
    delta_max: float,
) -> Round:  # fmt: skip
    """Lemma 9 at one state, L = 1.

    zbar moves by -1/M times the sum of ``1[i in A] D_i (g_i + noise) + eta_l eta_g s grad F_i(x_i)`` with g_i
    the echoed innovation without noise minus ``eta_l eta_g s grad F_i(x_i)``: clients and noise are
    independent.
    """
    m, total = problem.clients, problem.clients + rates.virtual
    z = auxiliary.auxiliary(problem, rates, local, gone)
    mean = (z.sum(0) + rates.virtual * server) / total
    a = problem.curvature[:, None]
    gradient = (a * (mean - problem.minima)).sum(0) / total
    own = a * (local - problem.minima)
    drift = (
        rates.server * rates.moved(problem.curvature)[:, None] * (local - problem.minima)
        - rates.progress * own
    )
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


def lemma_9(bound: tuple[Any, Any], seed: int) -> list[Check]:
    """The recursion of z, both sides of Lemma 9 along runs, and what its proof implies."""
    wrong, rows = 0.0, []
    for m in CLIENTS:
        problem, probability = quadratic(m, stream(seed, "oracle", "", m)), moving(m, ROUNDS)
        most = float(probability.max())
        for k in sorted({0, 1, m // 20, m}):
            ratios = []
            for share, server in product((1.0, 0.1), (0.5, 1.0, 10.0)):
                rates = Rates(share / (8 * LOCAL_STEPS * server), server, LOCAL_STEPS, k)
                path = simulate(bound, problem, rates, probability, stream(seed, "trace", "", 4, m))
                wrong = max(wrong, recursion_error(problem, rates, path))
                states = zip(path.local, path.server, path.absence, probability, strict=True)
                ratios += [descent(problem, rates, *state, most).ratio for state in states]
            text = f"m = {m}, k = {k}, {len(ratios)} states, eta_l <= 1 / (4 s L): {RATIO}"
            rows.append(Check("Descent", "Lemma 9", text, 1.0, max(ratios)))
    text = "largest difference between Definition 6 and the recursion of (18) and (19)"
    rows.insert(0, Check("Auxiliary sequence", "(10)-(14), (18), (19)", text, 0.0, wrong, "="))
    alone, rates = Quadratics(np.ones(1), np.zeros((1, 1)), np.ones(1), 0.0), Rates(3.0, 1 / 480, 20, 0)
    one = np.ones(1)
    found = descent(alone, rates, one[None], one, one, one, 1.0)
    text = f"m = L = 1, k = 0, s = 20, no noise, eta_l = 3, eta_l eta_g = 1 / (8 s L): {RATIO}"
    rows.append(Check("Descent, any eta_l", "Lemma 9", text, 1.0, found.ratio))
    m = CLIENTS[-1]
    for repaired, place in ((False, "Lemma 9, proof (l. 1559)"), (True, "own derivation")):
        for k in (0, 1, m // 20, m):
            rates = Rates(1 / (8 * LOCAL_STEPS), 1.0, LOCAL_STEPS, k)
            worst = float((proved(m, rates, 1.0, repaired) / coefficients(m, rates, 1.0)).max())
            line = "the repaired proof" if repaired else "its last line"
            text = f"m = {m}, k = {k}: largest coefficient of {line} over that stated"
            rows.append(Check("Proof of the descent", place, text, 1.0, worst))
    return rows


def bounds(problem: Quadratics, rates: Rates, setting: Setting, found: Averages) -> tuple[float, float]:
    """The right sides of (17) and of Lemma 21 for L = 1, with the true constants and measured gradients."""
    m, window = problem.clients, len(setting.probability)
    total = m + rates.virtual
    beta, zeta = auxiliary.dissimilarity(problem)
    second = absence.lemma_7(window, setting.delta)[1]
    # M / m |grad F~|^2 with F~ = m F / M
    shared = m / total * ((beta + 1) * found.gradient + zeta)
    scale = rates.progress**2 * second
    noise = 32 * problem.noise**2 * m / total / rates.steps
    consensus = scale * window / (1 - setting.rho(rates.virtual)) ** 2 * (noise + 24 * shared)
    return 3 * scale * (shared + found.regular), consensus


def errors(seed: int) -> list[Check]:
    """Proposition 10 and Lemma 21 with exact expectations, and a step of the latter's proof.

    A bound above the spread of the clients' minimisers, ``mean_i ||u_i - ubar||^2``, is called vacuous.
    """
    problem, start = quadratic(FEW, stream(seed, "oracle", "", FEW)), np.full(DIMENSION, 3.0)
    spread = float(problem.minima.var(0).sum())
    rows: tuple[list[Check], list[Check]] = [], []
    steps = []
    for setting, k in product(SETTINGS, (0, 1, FEW)):
        root, local = math.sqrt(setting.rho(k)), setting.delta / (20 * LOCAL_STEPS)
        small, most = setting.delta * (1 - root) / (10 * LOCAL_STEPS * (root + 1)), 1 / (8 * LOCAL_STEPS)
        second = absence.lemma_7(len(setting.probability), setting.delta)[1]
        pairs: tuple[list[tuple[float, float]], ...] = [], []  # measured, bound
        for rounds, step in product(HORIZONS, (small, most)):
            rates = Rates(local, step / local, LOCAL_STEPS, k)
            found = auxiliary.averages(problem, rates, start, setting.probability, rounds)
            limits = bounds(problem, rates, setting, found)
            pairs[0].append((found.approximation, limits[0]))
            if step == small:  # the largest that Lemma 21 admits
                pairs[1].append((found.consensus, limits[1]))
                steps.append(found.at_x / (rates.progress**2 * second * found.at_z))
        for (check, where, what), own, into in zip(BOUNDS, pairs, rows, strict=True):
            empty = sum(limit > spread for _, limit in own)
            text = (
                f"m = {FEW}, k = {k}, {setting.name}: {what} over the bound, largest of {len(own)} cases, "
                f"bound vacuous in {empty}"
            )
            into.append(Check(check, where, text, 1.0, max(value / limit for value, limit in own)))
    text = "mean squared local gradient at x over eta_l^2 eta_g^2 s^2 (16) times that at z, smallest"
    proof = Check("Local gradients at x and z", "Lemma 21, proof (l. 1900)", text, 1.0, min(steps))
    return [*rows[0], *unrestricted(), *rows[1], proof]


def unrestricted() -> list[Check]:
    """Proposition 10 for F_i(x) = max(x, 0)^2 / 2, without noise, at eta_l eta_g s = L = 1, from x = 1.

    Away from the start, a client has z = 1 - t with gradient 0 after round 0, while that at x is 1. The first
    round with it brings x to 0 or below, and both gradients are 0 from then on. beta = zeta = 0.
    """
    rounds = np.arange(ROUNDS)
    p = 0.1
    # away in rounds 0, ..., t - 1 with probability (1 - p)^t; zbar = z_1
    ratio = float((rounds**2 * (1 - p) ** rounds).sum()) / (3 * absence.lemma_7(1, p)[1])
    case = "F_i = max(x, 0)^2 / 2, eta_l eta_g s = L = 1, no noise"
    text = f"{case}, m = 1, k = 0, p = 0.1, T = {ROUNDS}: mean approximation error over the bound"
    rows = [Check("Approximation error, any rate", "Proposition 10", text, 1.0, ratio)]
    m, k, window = 1000, 1, 100
    gone = np.arange(window)
    z = 1.0 - gone
    mean = (m * z + k) / (m + k)
    gradient = m / (m + k) * np.maximum(mean, 0)  # of F~
    regular = m / (m + k) * (z - mean) ** 2
    error = m / (m + k) * gone**2
    limit = 3 * absence.lemma_7(window, 1 / window)[1] * ((m + k) / m * gradient**2 + regular).sum()
    text = (
        f"{case}, m = {m}, k = {k}, everybody in the last of every {window} rounds, T = {window}: "
        "mean approximation error over the bound"
    )
    return [
        *rows,
        Check("Approximation error, any rate", "Proposition 10", text, 1.0, float(error.sum() / limit)),
    ]


def horizon(setting: Setting, beta: float, k: float) -> int:
    """The smallest power of two that Corollary 14's rates need for (22), L = 1; ``beta``: beta^2."""
    window, delta = len(setting.probability), setting.delta
    m = setting.probability.shape[1]
    common = ((window - 1) ** 2 * delta**2 + 1) * (beta + 1)
    product_of_rates = delta * (1 - setting.rho(k)) / 96 * math.sqrt(m / (window * (m + k) * common))
    root = max(math.sqrt(LOCAL_STEPS * delta * m) / product_of_rates, 216 * math.sqrt(common) / delta)
    return int(2 ** math.ceil(2 * math.log2(root)))


def orders(seed: int) -> list[Check]:
    """(23) and (27) under Corollary 14's rates, at the smallest T that (22) admits and at 16 times that."""
    problem, start, k = quadratic(FEW, stream(seed, "oracle", "", FEW)), np.full(DIMENSION, 3.0), FEW
    everybody = Setting("everybody available", np.ones((1, FEW)))
    rows = []
    for setting in (*SETTINGS, everybody):
        first = horizon(setting, auxiliary.dissimilarity(problem)[0], k)
        found = []
        for rounds in (first, LONG * first):
            server = math.sqrt(LOCAL_STEPS * setting.delta * FEW)
            rates = Rates(1 / (math.sqrt(rounds) * LOCAL_STEPS), server, LOCAL_STEPS, k)
            found.append(auxiliary.averages(problem, rates, start, setting.probability, rounds))
        case = f"m = k = {FEW}, {setting.name}, T = {first:.2g}"
        if setting is everybody:
            none = sum(abs(error) < 1e-12 * found[0].gradient for error in found[0][:2])
            text = f"{case}: errors that are 0 while the squared gradient is {found[0].gradient:.2g}"
            rows.append(Check("One order", "(23)", text, 0.0, none, "="))
            continue
        for where, above, below in PAIRS:
            a, b = (getattr(average, above) / getattr(average, below) for average in found)
            text = f"{case} and {LONG} times that: {WORDS[above]} over {WORDS[below]} changes by the factor"
            rows.append(Check("One order", where, text, 2.0, max(a / b, b / a)))
    return rows


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per check."""
    assert spec.algorithm
    return checks.table(
        [*lemma_9(bind("algorithm", spec.algorithm), spec.seed), *errors(spec.seed), *orders(spec.seed)]
    )
