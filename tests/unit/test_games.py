"""Games of participation: constants, equilibria, lemmas, and what the paper cannot have."""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedrepro.core.game import (
    Game,
    contributions,
    dual_gap,
    extragradient,
    schedules,
    trajectory,
    welfare_average,
)
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice, Participation
from fedrepro.errors import FedreproError
from fedrepro.games import discovery, discovery_welfare, zero_sum

UPPER = (15000, 8000, 18000, 6000, 13000)


def game(name: str, seed: int = 3, chosen: Participation | None = None, **params: Any) -> Game:
    chosen = chosen or Participation(UPPER, step_size=1.0)
    return Game(*bind("game", Choice(name, params)), chosen, seed)


class Rotation(NamedTuple):
    """F(N) = J N + b of a game whose J is neither diagonal nor symmetric."""

    matrix: Any
    constant: Any


def affine(matrix: Any, constant: Any) -> Game:
    """A two-client game with the given marginals on [1, 10]^2; without losses."""
    plugin = ModuleType("affine")
    plugin.__dict__.update(
        AFFINE=True,
        coefficients=lambda params, clients, seed: Rotation(np.array(matrix), np.array(constant)),
        marginals=lambda c, n: n @ c.matrix.T + c.constant,
        jacobian=lambda c, n: c.matrix,
    )
    return Game(plugin, None, Participation((10, 10), step_size=1.0), 0)


def test_closed_form_by_hand() -> None:
    """q_i uniform in the limit of a large concentration: ||q_i||^2 = 0.1; (0.1 - share 0.1) / 1e-5.

    Shares 0, 0.5, 0.95, 1, 0.2 give 10000, 5000, 500, 0 (raised to 1), 8000; caps bind nowhere but for
    lambda = 5e-6, where 20000 exceeds 15000.
    """
    shares: Any = {"concentration": 1e12, "cost_share": (0.0, 0.5, 0.95, 1.0, 0.2)}
    found = game("discovery", **shares).equilibria
    assert found is not None
    np.testing.assert_allclose(found[0], [10000, 5000, 500, 1, 8000], rtol=1e-4)
    looser = game("discovery", regularisation=5e-6, **shares).equilibria
    assert looser is not None and looser[0][0] == 15000


def test_guarantees_follow_from_the_jacobian() -> None:
    assert game("discovery").guarantee == "strongly"
    assert game("discovery").modulus == game("discovery").lipschitz == 1e-5
    assert game("discovery_welfare").guarantee == "merely"
    assert game("zero_sum").guarantee == "none" and game("zero_sum").modulus < 0
    assert affine([[1.0, -3.0], [3.0, 1.0]], [0.0, 0.0]).guarantee == "strongly"
    assert affine([[0.0, -3.0], [3.0, 0.0]], [0.0, 0.0]).guarantee == "merely"
    assert affine([[1.0, 3.0], [3.0, 1.0]], [0.0, 0.0]).guarantee == "none"


@pytest.mark.parametrize("seed", range(5))
def test_projected_gradient_converges_at_the_rate_of_lemma_4_3(seed: int) -> None:
    """At the largest admitted step, mu / L^2 = 1 / lambda, and at smaller ones; both parts of the lemma."""
    for share in (1.0, 0.1, 0.01):
        chosen = Participation(UPPER, step_size=share * 1e5)
        found = game("discovery", seed, chosen)
        assert found.equilibria is not None
        target = found.equilibria[0]
        path = trajectory(found, chosen, 400)
        distance = np.linalg.norm(path - target, axis=1)
        rate = (1 - 0.5 * found.modulus * chosen.step_size) ** np.arange(401)
        assert (distance <= rate * distance[0] + 1e-9).all() and distance[0] > 1000
        shares = path / path.sum(axis=1, keepdims=True)
        delta = 4 * distance[0] / target.sum() * rate
        assert (np.abs(shares - target / target.sum()) <= delta[:, None] + 1e-12).all()
        if share >= 0.1:
            np.testing.assert_allclose(path[-1], target, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_an_independent_solver_finds_the_same_equilibria(seed: int) -> None:
    found = game("discovery", seed)
    assert found.equilibria is not None
    solved = extragradient(found, found.upper, 0.5 / found.lipschitz, 200)
    np.testing.assert_allclose(solved, found.equilibria[0], atol=1e-6)
    merely = game("discovery_welfare", seed)
    assert merely.equilibria is not None
    np.testing.assert_array_equal(merely.equilibria[0], merely.equilibria[1])
    np.testing.assert_array_equal(extragradient(merely, merely.upper / 3, 1e7, 50), merely.equilibria[0])


def test_extragradient_converges_where_plain_gradient_does_not() -> None:
    """Matching pennies around (5, 5): F = (-(y - 5), x - 5) is merely monotone and turns in circles."""
    found = affine([[0.0, -1.0], [1.0, 0.0]], [5.0, -5.0])
    start = np.array([9.0, 6.0])
    np.testing.assert_allclose(extragradient(found, start, 0.5, 400), [5, 5], atol=1e-9)
    plain = trajectory(found, Participation((10, 10), step_size=0.5), 400, start)
    assert np.linalg.norm(plain[-1] - 5) > 1


def test_dual_gap_by_hand() -> None:
    """Constant F = (1, -2) on [1, 10]^2 at (4, 4): 1 (4 - 1) - 2 (4 - 10) = 15. Zero at the equilibrium.

    F = 2 N - 8 at N = (4, 4) is an equilibrium; at (6, 4) the supremum of (2 n - 8)(6 - n) is 2, at n = 5.
    """
    constant = affine(np.zeros((2, 2)), [1.0, -2.0])
    assert dual_gap(constant, np.array([4.0, 4.0])) == 15
    assert dual_gap(constant, np.array([1.0, 10.0])) == 0
    diagonal = affine(2 * np.eye(2), [-8.0, -8.0])
    assert dual_gap(diagonal, np.array([4.0, 4.0])) == 0
    assert dual_gap(diagonal, np.array([6.0, 4.0])) == pytest.approx(2)


def test_dual_gap_against_a_grid() -> None:
    found = affine([[2.0, -1.0], [3.0, 1.0]], [1.0, -4.0])
    grid = np.stack(np.meshgrid(*[np.linspace(1, 10, 901)] * 2), axis=-1).reshape(-1, 2)
    for n in (np.array([2.0, 7.0]), np.array([9.0, 1.5])):
        brute = (found.marginals(grid) * (n - grid)).sum(axis=1).max()
        assert dual_gap(found, n) == pytest.approx(brute, rel=1e-4)
        assert dual_gap(found, n) >= brute - 1e-9
    solved = extragradient(found, np.array([5.0, 5.0]), 0.2, 500)
    assert dual_gap(found, solved) == pytest.approx(0, abs=1e-9)


def test_welfare_loss_is_stable_and_not_strictly_convex() -> None:
    """exp(46,000) overflows; h depends on the sum alone, so it is linear along (1, -1, 0, 0, 0)."""
    drawn = discovery_welfare.coefficients(discovery_welfare.Params(), 5, 3)
    n = np.array([15000.0, 0, 18000, 0, 13000])
    assert discovery_welfare.welfare(drawn, n) == 46000
    np.testing.assert_array_equal(discovery_welfare.welfare_gradient(drawn, n), 1)
    assert discovery_welfare.welfare(drawn, np.zeros(5)) == pytest.approx(np.log(2))
    np.testing.assert_array_equal(discovery_welfare.welfare_gradient(drawn, np.zeros(5)), 0.5)
    moved = [discovery_welfare.welfare(drawn, n + s * np.array([-1.0, 1, 0, 0, 0])) for s in (0, 1, 2)]
    assert moved[0] == moved[1] == moved[2]


def test_the_welfare_update_follows_its_schedules() -> None:
    """gamma_0 = 8, a = 1/2: 8, 8 / sqrt 2, ...; lambda_0 = 0.4, b = 1/4; one step by hand."""
    chosen = Participation((10, 10), 8.0, 0.0, 0.5, 0.5, 0.4, 0.25)
    steps, weights = schedules(chosen, 16)
    np.testing.assert_allclose(steps[[0, 1, 15]], [8, 8 / 2**0.5, 2])
    np.testing.assert_allclose(weights[[0, 15]], [0.4, 0.2])
    found = game("discovery_welfare", 3, chosen, concentration=1e12, cost_share=(0.5, 1.0))
    path = trajectory(found, chosen, 2)
    slope = 1 / (1 + np.exp(-10.0))
    np.testing.assert_allclose(path[1], 5 - 8 * (np.array([-0.05, 0]) + 0.4 * slope), rtol=1e-6)
    average = welfare_average(path, chosen)
    np.testing.assert_array_equal(average[0], path[0])
    first, second = steps[:2] * weights[:2]
    np.testing.assert_allclose(average[1], (first * path[0] + second * path[1]) / (first + second))


def test_the_welfare_loss_selects_small_totals() -> None:
    """A client with F_i = 0 is indifferent: every choice is an equilibrium, and h picks the lowest."""
    chosen = Participation((100, 100), 20.0, 0.0, 1.0, 0.5, 0.3, 0.25)
    found = game("discovery_welfare", 3, chosen, concentration=1e12, cost_share=(0.1, 1.0))
    assert found.coefficients.marginals[1] == 0
    assert found.equilibria is not None
    low, high = found.equilibria
    np.testing.assert_array_equal([low, high], [[100, 0], [100, 100]])
    np.testing.assert_allclose(trajectory(found, chosen, 20000)[-1], [100, 0], atol=1e-9)


def test_two_clients_play_a_zero_sum_game() -> None:
    """l_1 + l_2 = 0 for two; payoffs are not negative, grow, and grow less and less."""
    chosen = Participation((50, 80), step_size=1.0)
    found = game("zero_sum", 3, chosen, alpha=(0.7, 1.0), beta=(0.3, 0.9))
    n = np.random.default_rng(1).uniform(1, 50, (20, 2))
    np.testing.assert_allclose(found.losses(n).sum(axis=1), 0, atol=1e-15)
    paid = zero_sum.payoffs(found.coefficients, np.linspace([1.0, 0.0], [50.0, 80.0], 200))
    assert (paid >= 0).all() and (np.diff(paid, axis=0) > 0).all() and (np.diff(paid, 2, axis=0) < 0).all()


def test_at_most_one_client_climbs_under_sum() -> None:
    """2 g_i > sum_j g_j is true of one client at most; with the mean of the others it may be of several."""
    rng = np.random.default_rng(2)
    for _ in range(500):
        params: Any = {"alpha": tuple(rng.uniform(0.1, 5, 5)), "beta": tuple(rng.uniform(0.01, 1, 5))}
        n = rng.uniform(1, UPPER)
        assert (game("zero_sum", **params).marginals(n) < 0).sum() <= 1
    two: Any = {"alpha": (1.0, 1.0, 1.0, 1.0, 0.7), "beta": (0.1, 0.6, 0.6, 0.6, 0.11)}
    falling = game("zero_sum", competitors="mean", **two).marginals(np.array(UPPER) / 2)
    np.testing.assert_array_equal(falling < 0, [True, False, False, False, True])


def test_best_responses_decide_what_an_equilibrium_is() -> None:
    """The dynamics rest where one client is at its cap and the others at the bottom: an equilibrium or not.

    At S = 15004 against S = 5, with beta = 0.05 of its own and 0.6 of four others, client 0's loss is
    4 (1 - alpha 0.003) - 0.38 against 4 (1 - alpha 0.38) - 0.08: by leaving it loses 0.3 and takes 1.5 alpha
    from the others. With alpha = 0.01 it stays, with alpha = 1 it leaves, though its marginal says climb.
    """
    rest = np.array([15000.0, 1, 1, 1, 1])
    chosen = Participation(UPPER, step_size=1.0, lower=1.0)
    for alpha in (0.01, 1.0):
        params = {"alpha": (1.0, *[alpha] * 4), "beta": (0.05, 0.6, 0.6, 0.6, 0.6)}
        found = Game(*bind("game", Choice("zero_sum", params)), chosen, 3)
        np.testing.assert_array_equal(found.marginals(rest) < 0, [True, False, False, False, False])
        np.testing.assert_array_equal(trajectory(found, chosen, 1, rest)[-1], rest)
        assert found.regret(rest)[0] == pytest.approx(0 if alpha < 1 else 1.5 - 0.3, abs=0.01)
        assert found.regret(rest)[1:].max() == 0
        assert found.regret(np.array(UPPER, dtype=float)).max() > 0


def test_what_a_game_does_not_have_is_refused() -> None:
    with pytest.raises(FedreproError, match="game zero_sum has the guarantee 'none'"):
        dual_gap(game("zero_sum"), np.ones(5))
    with pytest.raises(FedreproError, match=r"Lemma 4\.3 holds for strongly monotone games, but game disc"):
        game("discovery_welfare").require("Lemma 4.3", "strongly")
    with pytest.raises(FedreproError, match="zero_sum has no known set of equilibria"):
        game("zero_sum").distance(np.ones(5))
    chosen = Participation(UPPER, step_size=1.0, welfare_weight=0.1)
    with pytest.raises(FedreproError, match=r"participation.welfare_weight.*discovery has no welfare"):
        trajectory(game("discovery"), chosen, 2)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lower = 7000.0 is above upper\[3\] = 6000"):
        Participation(UPPER, step_size=1.0, lower=7000.0)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        discovery.Params(cost_share=(0.5, 1.2))
    with pytest.raises(ValueError, match=r"highest_cost = 1.0.*larger highest_cost"):
        discovery_welfare.Params(cost_share=(0.5, 1.2))
    assert discovery_welfare.Params(cost_share=(0.5, 1.2), highest_cost=2.0)


def test_training_stops_where_nobody_is_left() -> None:
    """Two clients of whom the costs drive both out; a game that only ends at zero is refused as well."""
    chosen = Participation((100, 100), step_size=1000.0, lower=0.0)
    found = game("discovery_welfare", 3, chosen, cost_share=(1.5, 2.0), highest_cost=2.0)
    assert trajectory(found, chosen, 3)[-1].sum() == 0
    with pytest.raises(FedreproError, match="all clients that train are at zero after round"):
        contributions(found, chosen, 3)
    with pytest.raises(FedreproError, match="game zero_sum: all clients are at zero"):
        trajectory(game("zero_sum", alpha=(1.0,) * 2, beta=(0.5,) * 2), Participation((9, 9), 1e9, 0.0), 2,
                   np.zeros(2))  # fmt: skip
