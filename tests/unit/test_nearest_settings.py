"""How far from the paper's settings those are in which its outcome occurs, against closed forms."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrepro.analyses import nearest_draws
from fedrepro.cells import analysis
from fedrepro.core.game import Game, trajectory
from fedrepro.core.job import Context, bind
from fedrepro.core.selection import is_reported, stays
from fedrepro.core.spec import AnalysisSpec, Choice, Participation
from fedrepro.core.tables import decode
from fedrepro.errors import FedreproError

UPPER = (15000, 8000, 18000, 6000, 13000)
LIGHT = Participation(UPPER, 5000.0, 0.0, 0.5, 0.5, 0.01, 0.25)
HEAVY = Participation(UPPER, 3500.0, 0.0, 0.5, 0.5, 0.1, 0.25)
OUT_OF_RANGE = {"cost_share": (0.5, 1.2, 0.6, 1.3, 0.4), "highest_cost": 2.0}
IN_RANGE = {"cost_share": (0.2, 0.9, 0.1, 0.92, 0.2)}
POWER_LAW = {"alpha": (1.0, 1.0, 1.0, 1.0, 0.7), "beta": (0.1, 0.6, 0.6, 0.6, 0.11)}


def specified(
    name: str, game: str, own: dict[str, Any], participation: Participation, rounds: int, **params: Any
) -> AnalysisSpec:
    chosen = Choice(game, own)
    return AnalysisSpec(Choice(name, params), 3, rounds=rounds, game=chosen, participation=participation)


def found(spec: AnalysisSpec) -> pd.DataFrame:
    return decode(analysis.run(spec, {}, Context()).files["metrics"].content).to_pandas()


def reflected(step: float, weight: float, pull: float, cap: int, rounds: int) -> np.ndarray:
    """N_r, r = 0, ..., rounds, of a client with F_i = -pull that starts at cap / 2, in closed form.

    With h' = 1 it moves by gamma_r (pull - lambda_r), and lambda_r falls: down first, then up for good. So
    it is at max(0, sum of the moves) until the sign changes, and adds up from there.
    """
    r = np.arange(1, rounds + 1, dtype=np.float64)
    moves = step * r**-0.5 * (pull - weight * r**-0.25)
    turn = int((moves < 0).sum())
    down = np.maximum(cap / 2 + np.cumsum(moves[:turn]), 0)
    last = down[-1] if turn else cap / 2
    return np.concatenate([[cap / 2], down, np.minimum(last + np.cumsum(moves[turn:]), cap)])


def test_totals_within_one_percent_count_as_reported() -> None:
    """46,000 +- 460; a run must have it from round 1,000 to round 10,000."""
    upper = np.array(UPPER, dtype=float)
    assert list(is_reported(np.array([45539.0, 45540.0, 46460.0, 46461.0]), upper)) == [
        False,
        True,
        True,
        False,
    ]
    total = np.full(10001, 46000.0)
    total[:1000] = 30000
    assert stays(total, upper)
    total[10000] = 46500
    assert not stays(total, upper)
    with pytest.raises(FedreproError, match=r"key 'rounds': 9999 rounds are too few .* round 10000"):
        stays(total[:-1], upper)
    with pytest.raises(FedreproError, match=r"2 bounds, but Figure 3 is about clients 0 to 4"):
        is_reported(total, upper[:2])


def test_the_least_costs_end_the_range() -> None:
    """The limit is 46,000 from c = 1 on: below, F_i < 0. By round 1,000 it needs more than that.

    At c = 1 the clients move by 50 r^(-3/4) images in round r - 1, about 200 r^(1/4) in all: after 10,000
    rounds 2,000, of the 4,000 and 3,000 at which clients 1 and 3 start, and the total is near 49,000. At
    c > 1 client 1 moves by 2 gamma_0 r^(1/2) F more, and must be at 460 by round 1,000, with client 3 gone.
    """
    frame = found(specified("nearest_costs", "discovery_welfare", OUT_OF_RANGE, LIGHT, 10000))
    limit, below, after, run = frame["computed"]
    assert (limit, below) == (1.0, 60000.0) and list(frame["holds"]) == [True, False, False, True]
    # The start is 30,000, clients 0, 2, 4 reach 46,000, and 7,000 are left to fall by 2 x 50 sum r^(-3/4).
    drift = 50 * (np.arange(1, 10001) ** -0.75).sum()
    assert after == pytest.approx(46000 + 7000 - 2 * drift, rel=1e-6)
    game = Game(*bind("game", Choice("discovery_welfare", OUT_OF_RANGE)), LIGHT, 3)
    own = np.diag(game.coefficients.overlap)[1]
    r = np.arange(1, 1001)
    needed = (4000 - 460 - 50 * (r**-0.75).sum()) / (5000 * (r**-0.5).sum() * own)
    assert run == np.ceil((1 + needed) * 1000) / 1000


def test_the_least_weight_and_when_its_total_leaves() -> None:
    """Against the closed form of both clients that move; clients 0, 2, 4 are at their caps throughout."""
    frame = found(
        specified("nearest_weight", "discovery_welfare", IN_RANGE, HEAVY, 20000, spacing=0.005, coarse=4)
    )
    weight, left, shown, limit = frame["computed"]
    assert limit == 60000 and list(frame["holds"]) == [True, False, False, False]
    game = Game(*bind("game", Choice("discovery_welfare", IN_RANGE)), HEAVY, 3)
    pull = -game.coefficients.marginals

    def extra(weight: float) -> np.ndarray:
        pairs = ((pull[client], UPPER[client]) for client in (1, 3))
        return sum((reflected(3500, weight, own, cap, 20000) for own, cap in pairs), np.zeros(20001))

    meets = [bool((extra(0.005 * n)[1000:10001] <= 460).all()) for n in range(21)]
    assert weight == pytest.approx(0.005 * meets.index(True)) and meets == sorted(meets)
    for value, last in ((weight, left), (0.1, shown)):
        assert last == np.flatnonzero(extra(value) <= 460)[-1] < 20000


def test_settings_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(
        FedreproError, match=r"cost_share of discovery_welfare must be above 1 for clients 1 and 3"
    ):
        found(specified("nearest_costs", "discovery_welfare", IN_RANGE, LIGHT, 10000))
    slow = Participation(UPPER, 10.0, 0.0, 0.5, 0.5, 0.01, 0.25)
    with pytest.raises(FedreproError, match=r"no theta_i up to 2 .* by round 1000; raise game.highest_cost"):
        found(specified("nearest_costs", "discovery_welfare", OUT_OF_RANGE, slow, 10000, resolution=4))
    with pytest.raises(FedreproError, match=r"no lambda_0 up to 1 keeps the total"):
        found(specified("nearest_weight", "discovery_welfare", IN_RANGE, slow, 10000, spacing=0.5, coarse=1))
    light = Participation(UPPER, 3500.0, 0.0)
    with pytest.raises(FedreproError, match=r"needs a positive participation.welfare_weight"):
        found(specified("nearest_weight", "discovery_welfare", IN_RANGE, light, 10000))
    with pytest.raises(FedreproError, match=r"discovery_welfare with 5 clients is not the game of Figure 4"):
        found(specified("nearest_draws", "discovery_welfare", IN_RANGE, light, 10))


def test_draws_end_as_reported_under_the_mean_only() -> None:
    """Drawn so that g is known at every S: equal beta, so that alpha alone says who climbs.

    (4, 1, 1, 1, 3): mean 2, so 0 and 4 climb; sum 10, half of it 5: nobody does. (6, 1, 2, 1, 1): client 0
    alone, in both. (1, 4, 1, 1, 3): clients 1 and 4, under the mean.
    """
    alpha = np.array([[4.0, 1, 1, 1, 3], [6.0, 1, 2, 1, 1], [1.0, 4, 1, 1, 3]])
    beta = np.full_like(alpha, 0.5)
    chosen = Participation(UPPER, 100.0, 1.0)
    spec = specified("nearest_draws", "zero_sum", POWER_LAW, chosen, 800)
    mean, total = (nearest_draws.ends(spec, rule, alpha, beta) for rule in ("mean", "sum"))
    assert list(mean.capped) == [True, False, False] and mean.shown
    assert not total.capped.any() and not total.shown
    assert list(mean.largest) == list(total.largest) == [True, False, False]
    frame = found(specified("nearest_draws", "zero_sum", POWER_LAW, chosen, 300, draws=300))
    assert list(frame["holds"]) == [False, False, False, True, True, True]
    assert frame["computed"].iloc[4] > frame["computed"].iloc[3]


def test_a_factor_of_alpha_is_one_of_the_step() -> None:
    """The same path for 10 alpha and a tenth of the step."""
    paths = []
    for factor, step in ((1.0, 2e6), (10.0, 2e5)):
        own = POWER_LAW | {"alpha": tuple(factor * value for value in POWER_LAW["alpha"])}
        chosen = Participation(UPPER, step, 1.0)
        paths.append(trajectory(Game(*bind("game", Choice("zero_sum", own)), chosen, 3), chosen, 200))
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-9)
