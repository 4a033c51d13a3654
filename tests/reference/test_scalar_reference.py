"""The scalar simulation against exact enumeration, a plain NumPy version and Theorem 2.

Enumeration: with two-point noise and uniform sampling without replacement, one round from x has
binom(n, S) 2^(nQ) equally likely outcomes when every client, sampled or not, has a virtual trajectory: those
of clients that are not sampled change nothing, but enter Lemmas 2 and 3.

Statistical bounds are four standard errors, on fixed keys.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import scalar_numpy
from fedrepro.core.problem import Problem, admissible_step, gradient_bound, sampling_factor
from fedrepro.core.scalar import Simulation, simulate
from fedrepro.problems import huber40, softplus16

Floats = NDArray[np.float64]

ALPHA = 0.3
INSTANCES = [  # offsets, x_t, Q
    ([0.0, 0.0, 3.0], 1.5, 1),
    ([0.0, 0.4, 1.1, 5.0], 0.7, 2),
    ([-2.0, 0.0, 0.5, 1.0, 7.0], 1.2, 2),
]
CASES = [
    pytest.param(offsets, x, q, sampled, id=f"n{len(offsets)}-Q{q}-S{sampled}")
    for offsets, x, q in INSTANCES
    for sampled in range(1, len(offsets) + 1)
]
PROBLEMS = {
    "huber40": Problem(huber40, huber40.Params(20.0)),
    "softplus16": Problem(softplus16, softplus16.Params()),
}


class Outcomes(NamedTuple):
    """One round over all outcomes of the noise (rows) and all sampling sets (columns)."""

    gradients: Floats  # (outcomes, n): sum over the local steps of f_i' along the virtual trajectories
    directions: Floats  # (outcomes, sets): G_t = (x_t - x_{t+1}) / alpha
    sampled_gradients: Floats  # (outcomes, sets): mean over the sampled clients of the sums above


def enumerate_round(offsets: list[float], start: float, local_steps: int, sampled: int) -> Outcomes:
    """Huber clients with the oracle f_i'(x) +- sqrt(f_i(x)), written out."""
    n = len(offsets)
    bits = np.arange(2 ** (n * local_steps))[:, None] >> np.arange(n * local_steps)
    signs = (2.0 * (bits & 1) - 1).reshape(-1, local_steps, n)
    x = np.full((len(signs), n), start)
    sums = np.zeros_like(x)
    for step in range(local_steps):
        u = x - offsets
        gradient = np.where(np.abs(u) < 1, u, np.sign(u))
        value = np.where(np.abs(u) < 1, u**2 / 2, np.abs(u) - 0.5)
        sums += gradient
        x = x - ALPHA * (gradient + signs[:, step] * np.sqrt(value))
    sets = [list(chosen) for chosen in combinations(range(n), sampled)]
    directions = np.stack([(start - x[:, chosen].mean(1)) / ALPHA for chosen in sets], axis=1)
    return Outcomes(sums, directions, np.stack([sums[:, chosen].mean(1) for chosen in sets], axis=1))


@pytest.mark.parametrize("offsets, x, q, sampled", CASES)
def test_lemma_2_sampling_keeps_the_mean_direction(
    offsets: list[float], x: float, q: int, sampled: int
) -> None:
    """E G = Q E (1/(nQ)) sum_i sum_l f_i'(x_i^l), which is not Q f'(x) when Q = 2."""
    outcomes = enumerate_round(offsets, x, q, sampled)
    mean_gradient = outcomes.gradients.mean() / q
    assert outcomes.directions.mean() == pytest.approx(q * mean_gradient, abs=1e-12)
    at_start = np.clip(x - np.array(offsets), -1, 1).mean()
    assert (abs(mean_gradient - at_start) > 1e-3) == (q > 1)


@pytest.mark.parametrize("offsets, x, q, sampled", CASES)
def test_lemma_3_sampling_error_is_the_factor_times_the_trajectory_dissimilarity(
    offsets: list[float], x: float, q: int, sampled: int
) -> None:
    """E |mean over S_t - mean over all|^2 = (I_S / S) Psi, Psi = E (1/n) sum_i (b_i - mean b)^2."""
    outcomes = enumerate_round(offsets, x, q, sampled)
    error = outcomes.sampled_gradients - outcomes.gradients.mean(axis=1, keepdims=True)
    psi = outcomes.gradients.var(axis=1).mean()
    factor = sampling_factor(sampled, len(offsets)) / sampled
    assert (error**2).mean() == pytest.approx(factor * psi, abs=1e-12)
    assert psi > 0.1


@pytest.mark.parametrize("offsets, x, q, sampled", CASES)
def test_one_round_of_the_kernel_has_the_enumerated_moments(
    offsets: list[float], x: float, q: int, sampled: int
) -> None:
    """All outcomes weigh the same, so their moments give the standard errors of mean and variance exactly.

    At known mean, the second moment over N trials has variance (m4 - m2^2) / N.
    """
    trials = 100_000
    work = Simulation(x, np.array(offsets), sampled, q, np.array([ALPHA]), np.array([1]), trials, key=11)
    direction = (x - simulate(huber40.step, "huber40", work)[:, 0]) / ALPHA
    exact = enumerate_round(offsets, x, q, sampled).directions
    mean, second = exact.mean(), exact.var()
    fourth = ((exact - exact.mean()) ** 4).mean()
    assert abs(direction.mean() - mean) < 4 * np.sqrt(second / trials)
    error = np.sqrt((fourth - second**2) / trials)
    assert abs(((direction - mean) ** 2).mean() - second) < 4 * error + 1e-9


def z_of_means(a: Floats, b: Floats) -> Floats:
    return (a.mean(0) - b.mean(0)) / np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))


def z_of_variances(a: Floats, b: Floats) -> Floats:
    """The means of squared deviations, as means of independent numbers."""
    return z_of_means((a - a.mean(0)) ** 2, (b - b.mean(0)) ** 2)


@pytest.mark.parametrize("sampled", [1, 4, 15])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_kernel_and_plain_numpy_have_the_same_law(name: str, sampled: int) -> None:
    """Means and variances of x_t and f(x_t) - f*, t = 1, 5, 20; alpha falls by half on the way."""
    problem, trials = PROBLEMS[name], 4000
    work = Simulation(
        start=problem.start,
        offsets=problem.offsets,
        sampled=sampled,
        local_steps=4,
        step_sizes=np.linspace(0.2, 0.1, 20),
        records=np.array([0, 1, 5, 20]),
        trials=trials,
        key=5,
    )
    ours, plain = simulate(problem.plugin.step, name, work), scalar_numpy.simulate(problem, work)
    assert (ours[:, 0] == problem.start).all() and (plain[:, 0] == problem.start).all()
    ours, plain = ours[:, 1:], plain[:, 1:]
    gaps = [problem.value(x) - problem.minimum for x in (ours, plain)]
    assert np.abs(z_of_means(ours, plain)).max() < 4
    assert np.abs(z_of_variances(ours, plain)).max() < 4
    assert np.abs(z_of_means(*gaps)).max() < 4
    assert np.abs(z_of_variances(*gaps)).max() < 4


@pytest.mark.parametrize("sampled", [1, 4, 8, 16])
def test_theorem_2_bounds_the_smallest_mean_squared_gradient(sampled: int) -> None:
    """At the largest step size that (20) admits, over t = 0, ..., T - 1.

    From x_0 = 1 the bound says something for every S: x_0 itself does not satisfy it.
    """
    problem, rounds, q = Problem(softplus16, softplus16.Params(start=1.0)), 50_000, 5
    step = admissible_step(softplus16, sampled, q, rounds)
    work = Simulation(
        start=problem.start,
        offsets=problem.offsets,
        sampled=sampled,
        local_steps=q,
        step_sizes=np.full(rounds, step),
        records=np.arange(0, rounds, 100),
        trials=10,
        key=8,
    )
    squared = problem.gradient(simulate(softplus16.step, "softplus16", work)) ** 2
    smallest = squared.mean(axis=0).min()
    assert smallest < gradient_bound(problem, sampled, q, rounds, step) < squared[0, 0]
