"""Moments of local SGD on quadratics, and the convergence statements that are measured with them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrepro.analyses.convergence_bounds import Convex, bias, mean_recursion
from fedrepro.cells import analysis
from fedrepro.core import local_sgd
from fedrepro.core.job import Context
from fedrepro.core.local_sgd import Quadratics, bounded_dissimilarity, convex_dissimilarity
from fedrepro.core.spec import AnalysisSpec, Choice, Participation
from fedrepro.core.tables import decode
from fedrepro.errors import FedreproError

UPPER = (15000, 8000, 18000, 6000, 13000)
# f = (x^2 + (x - 4)^2 / 2) / 2 with a = (1, 1/2), u = (0, 4), p* = (1/2, 1/2): x* = 4/3, A = 3/4
PAIR = Quadratics(np.array([1.0, 0.5]), np.array([[0.0], [4.0]]), np.array([0.5, 0.5]), 1.0)
HALF = np.array([[0.5, 0.5]])


def found(game: str, participation: Participation, rounds: int) -> pd.DataFrame:
    spec = AnalysisSpec(
        Choice("convergence_bounds"), 3, rounds=rounds, game=Choice(game), participation=participation
    )
    return decode(analysis.run(spec, {}, Context()).files["metrics"].content).to_pandas()


def slow(
    problem: Quadratics, shares: np.ndarray, weights: np.ndarray, step: float, local_steps: int, start: float
) -> tuple[list[tuple[float, float, float]], float, float]:
    """Step by step with the joint covariance of all models and their running sum, d = 1.

    Returns mean, variance and drift of xbar before every step and before every averaging, and mean and
    variance of the average of xbar.
    """
    m = problem.clients
    mean, cov, rows = np.append(np.full(m, start), 0.0), np.zeros((m + 1, m + 1)), []

    def apply(matrix: np.ndarray, shift: np.ndarray, noise: np.ndarray) -> None:
        nonlocal mean, cov
        mean, cov = matrix @ mean + shift, matrix @ cov @ matrix.T + np.diag(noise)

    for p, w in zip(shares, weights, strict=True):
        for j in range(local_steps + 1):
            off = np.eye(m) - w
            models, spread = mean[:m], cov[:m, :m]
            drift = w @ ((off @ models) ** 2 + np.diag(off @ spread @ off.T))
            rows.append((w @ models, w @ spread @ w, drift))
            if j == local_steps:
                break
            summed = np.eye(m + 1)
            summed[m, :m] = w
            apply(summed, np.zeros(m + 1), np.zeros(m + 1))
            kept = np.append(1 - step * problem.curvature, 1.0)
            shift = np.append(step * problem.curvature * problem.minima[:, 0], 0.0)
            apply(np.diag(kept), shift, np.append(np.full(m, (step * problem.noise) ** 2), 0.0))
        averaged = np.eye(m + 1)
        averaged[:m, :m] = p
        apply(averaged, np.zeros(m + 1), np.zeros(m + 1))
    count = len(shares) * local_steps
    return rows, mean[m] / count, cov[m, m] / count**2


def test_a_round_by_hand() -> None:
    """gamma = 1, H = 1 from x = 2: client 0 goes to 0, client 1 to 2 + (4 - 2) / 2 = 3, variances are 1.

    Their mean 3/2 has variance 1/2; each is 3/2 off it, with noise that differs by a variance of 1/2:
    drift 9/4 + 1/2. With weights (1/4, 3/4) the server is at 9/4, with variance 10/16.
    """
    server = local_sgd.run(PAIR, np.array([[0.25, 0.75]]), 1.0, 1, np.array([2.0]))
    assert server.mean.ravel().tolist() == [2, 2.25] and server.variance.tolist() == [0, 0.625]
    inner = local_sgd.steps(PAIR, server, HALF, 1.0, 1)
    assert inner.mean.ravel().tolist() == [2, 1.5] and inner.variance.ravel().tolist() == [0, 0.5]
    assert inner.drift.ravel().tolist() == [0, 2.75]


def test_losses_by_hand() -> None:
    """At x* = 4/3: f_i = 8/9 and 16/9, f* = 4/3. At 0: gradients 0 and -2, of f -1; gap 3/8 (4/3)^2."""
    assert PAIR.minimiser[0] == pytest.approx(4 / 3) and PAIR.optimum == pytest.approx(4 / 3)
    zero = np.zeros(1)
    assert PAIR.local_gradients(zero).tolist() == [0, 4] and PAIR.gradient(zero) == pytest.approx(1)
    assert PAIR.gap(zero) == pytest.approx(2 / 3)
    assert PAIR.gap(zero, 2.0) == pytest.approx(2 / 3 + 3 / 8 * 2), "variance adds A / 2 a coordinate"
    assert PAIR.local_gradients(zero, 2.0).tolist() == [2, 4.5]


@pytest.mark.parametrize("local_steps", [1, 2, 5])
def test_moments_against_the_joint_covariance(local_steps: int) -> None:
    rng = np.random.default_rng(0)
    shares, weights = rng.dirichlet([1, 1, 1], 6), rng.dirichlet([1, 1, 1], 6)
    problem = Quadratics(rng.uniform(0.2, 1, 3), rng.normal(size=(3, 1)), np.ones(3) / 3, 0.7)
    server = local_sgd.run(problem, shares, 0.3, local_steps, np.array([2.0]))
    inner = local_sgd.steps(problem, server, weights, 0.3, local_steps)
    rows, mean, variance = slow(problem, shares, weights, 0.3, local_steps, 2.0)
    mine = np.stack([inner.mean[..., 0], inner.variance, inner.drift], axis=-1).reshape(-1, 3)
    np.testing.assert_allclose(mine, rows, rtol=1e-10, atol=1e-14)
    average = local_sgd.average(problem, server, shares, weights, 0.3, local_steps)
    np.testing.assert_allclose([average[0][0], average[1]], [mean, variance], rtol=1e-10)


def test_dissimilarity_by_hand() -> None:
    """Assumption 4.5: mean a^2 = 5/8, A^2 = 9/16, so B^2 = 20/9; G^2 is the most of what it leaves over.

    5/8 x^2 - x + 2 - 5/4 (x - 4/3)^2 is -5/8 x^2 + 7/3 x - 2/9, largest at 28/15: 88/45.
    Lemma 6.5 with equal weights: B^2 = 1, G^2 = 2 f*.
    """
    g2, b2 = bounded_dissimilarity(PAIR)
    assert b2 == pytest.approx(20 / 9) and g2 == pytest.approx(88 / 45)
    grid = np.linspace(-20, 20, 4001)[:, None]
    excess = PAIR.local_gradients(grid).mean(axis=-1) - b2 * PAIR.gradient(grid)
    assert excess.max() == pytest.approx(g2, abs=1e-4)
    assert convex_dissimilarity(PAIR) == pytest.approx((8 / 3, 1))
    equal = Quadratics(np.ones(2), np.zeros((2, 1)), np.array([0.75, 0.25]), 0.0)
    assert convex_dissimilarity(equal) == (0, 2), "max |1 / (m p*) - 1| is 1, for 1/4"
    assert convex_dissimilarity(equal, -0.5).g2 == -1


def test_mean_of_the_models_by_hand() -> None:
    """Gradients -1, 1 and gamma = 1/2 lead to 1/2, -1/2. With p_0 = (1/2, 1/2) the mean does not move; the
    server with p_1 = (3/4, 1/4) is at 1/4.
    """
    shares, gradients = np.array([[0.5, 0.5], [0.75, 0.25]]), np.array([[[[-1.0], [1.0]]]])
    readings = [(0, 1), (0, 0), (1, 1), (1, 0)]
    assert [mean_recursion(shares, gradients, 0.5, *which) for which in readings] == [0.25, 0, 0, 0.25]


def test_theorem_4_9_by_hand() -> None:
    """m = H = 2, L = 1, nu = 0, delta_0 = 0: gamma = 1 / (48 sqrt(2)), bound (72 gamma^2 2 G^2 8) / (2 R).

    a = (1, 1/4), u = (0, 1): x* = 1/5, f* = (1/25 + 1/4 16/25) / 4 = 1/20, G^2 = 1/10. So the bound is 57.6
    gamma^2 / R = 1 / (80 R). Rederived it counts R times: 1/80.
    """
    losses = Quadratics(np.array([1.0, 0.25]), np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), 0.0)
    printed, right = (Convex(losses, 0.5, 0.0, 2, rederived) for rederived in (False, True))
    assert printed.gamma == pytest.approx(1 / (48 * 2**0.5)) and printed.needed == 0
    assert printed.bound(0.0, 10) == pytest.approx(1 / 800) and right.bound(0.0, 10) == pytest.approx(1 / 80)
    shares = np.tile(losses.weights, (500, 1))
    server = local_sgd.run(losses, shares, printed.gamma, 2, losses.minimiser)
    mean, variance = local_sgd.average(losses, server, shares, shares, printed.gamma, 2)
    assert variance == 0 and bias(printed, 500) == pytest.approx(float(losses.gap(mean)), rel=1e-6)
    # From x* the averaged model tends to 3/50 gamma off it, to first order in gamma (a = (1, 1/4), H = 2).
    assert bias(printed, 10**7) == pytest.approx(5 / 16 * (0.06 * printed.gamma) ** 2, rel=0.05)


def test_terms_of_theorem_4_9() -> None:
    """delta_0 = rho = 1/4, nu = 1, and PAIR: m = 2, L = 1, B^2 = 1, G^2 = 8/3.

    At x* the squared gradients sum to 32/9. H = 1: gamma = 1 / (2 (1/2) / (1/2) + 24 sqrt(2)).
    Condition on rhat: delta_0 16^(1/3) = 0.63 < 1.
    """
    case = Convex(PAIR, 0.25, 0.25, 1, False)
    gamma = 1 / (2 + 24 * 2**0.5)
    assert case.gamma == pytest.approx(gamma) and case.needed < 0
    inner = 4 * 3 / (gamma * 5) + 72 * gamma**2 * (1 + 16 / 3) / 5 + 4 * gamma
    inner += 16 * gamma * 4 / 16 * 8 / 3 / (5 * 15 / 16) + 4 / 8 * (8 / 3 + 32 / 9) / (5 * 7 / 8)
    assert case.bound(3.0, 5) == pytest.approx(inner / (1 - 2 * gamma))


def by_quantity(frame: pd.DataFrame, text: str) -> Any:
    (row,) = frame[(frame["where"] + frame["quantity"]).str.contains(text, regex=False)].itertuples()
    return row


def test_what_holds_and_what_does_not() -> None:
    frame = found("discovery", Participation(UPPER, 20000.0), 300)
    failing = ["line 13", "the first, m = 2", "as printed: fails from R = 51139 on", "(x^2 - 1) / 2"]
    for text in failing:
        assert not by_quantity(frame, text).holds
    assert len(frame) == 15 and int((~frame["holds"]).sum()) == len(failing)
    ratios = frame[frame["quantity"].str.contains("over its bound")]
    assert len(ratios) == 8 and ratios["computed"].between(0, 1, inclusive="neither").all()
    assert "(vacuous for H = 1, 5, 10, 20)" in by_quantity(frame, "over its bound as printed").quantity
    assert by_quantity(frame, "the first, m = 2").computed == 0.25


def test_the_limit_of_theorem_4_10() -> None:
    frame = found("discovery_welfare", Participation(UPPER, 5000.0, 1.0, 0.5, 0.5, 0.01, 0.25), 1)
    (row,) = frame.itertuples()
    assert row.holds and 0 < row.computed < 1


def test_what_the_theorems_do_not_cover_is_refused() -> None:
    with pytest.raises(FedreproError, match=r"Section 4 holds for .* zero_sum has the guarantee 'none'"):
        found("zero_sum", Participation(UPPER, 1.0), 10)
    with pytest.raises(
        FedreproError, match=r"key 'participation.lower': Section 4 assumes N_min >= 1, not 0"
    ):
        found("discovery", Participation(UPPER, 20000.0, 0.0), 10)
    with pytest.raises(FedreproError, match=r"Lemma 4\.3 holds up to mu_F / L_F\^2 = 100000, not for 200000"):
        found("discovery", Participation(UPPER, 2e5), 10)
    with pytest.raises(
        FedreproError, match=r"key 'rounds': Theorem 4\.6 averages from round \d+ on, with 10 "
    ):
        found("discovery", Participation(UPPER, 2000.0), 10)
