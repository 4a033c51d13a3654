"""Metrics over games and the training beside them, on tables small enough to check by hand."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrepro.cells import analysis
from fedrepro.claims import participation as metrics
from fedrepro.claims.data import Data
from fedrepro.claims.evidence import Part, Sample, Statement, TwoSamples
from fedrepro.claims.rules import Rule, decide, together
from fedrepro.claims.verdicts import word
from fedrepro.core.job import Context
from fedrepro.core.spec import AnalysisSpec, Choice, Participation
from fedrepro.core.tables import decode
from fedrepro.stats.permutation import larger, runs_needed

PUBLISHED = pd.read_csv(Path(__file__).parents[2] / "config/papers/incentive/reference.csv")
CAPS = (60, 40)


def verdict(rule: Rule, parts: list[Part]) -> str:
    return word(*together(rule, decide(rule, parts)))


def data(**frames: pd.DataFrame) -> Data:
    return Data({k: frame.assign(status="ok", reading=None) for k, frame in frames.items()}, PUBLISHED)


def course(rounds: Mapping[int, list[float]], caps: tuple[int, ...] = CAPS) -> pd.DataFrame:
    """A game cell: N_i by recorded round."""
    rows = [
        {"cell": "game-toy", "round": r, "client": i, "contribution": n, "upper": float(caps[i])}
        for r, profile in rounds.items()
        for i, n in enumerate(profile)
    ]
    return pd.DataFrame(rows).assign(**{"participation.upper": str(list(caps))})


def starts(
    game: str, params: dict[str, Any], chosen: Participation, rounds: int, draws: int = 1
) -> pd.DataFrame:
    choice = Choice("game_starts", {"draws": draws, "starts": 6})
    spec = AnalysisSpec(choice, 3, rounds=rounds, game=Choice(game, params), participation=chosen)
    frame = decode(analysis.run(spec, {}, Context()).files["metrics"].content).to_pandas()
    return frame.assign(game=game, cell=game, **{"participation.upper": str(list(chosen.upper))})


def test_the_regularised_game_ends_at_its_equilibrium_only_after_enough_rounds() -> None:
    """The error shrinks by 1 - 0.2 a round: after 200 it is below 1e-9 of N*, after 20 it is not."""
    chosen = Participation((15000, 8000), 20000.0)
    for rounds, expected in ((200, "agrees"), (20, "disagrees")):
        found = data(starts=starts("discovery", {}, chosen, rounds))
        assert verdict(Rule("EX"), metrics.equilibrium_reached(found, "starts")) == expected
        assert verdict(Rule("EX"), metrics.same_end(found, "starts")) == expected


def test_the_zero_sum_game_ends_where_it_starts_from() -> None:
    """Two clients whose payoffs weigh alike move neither way, so that every start is an end."""
    equal = {"alpha": (1.0, 1.0), "beta": (0.5, 0.5)}
    found = data(starts=starts("zero_sum", equal, Participation((60, 40), 1.0), 5))
    (part,) = metrics.same_end(found, "starts")
    assert verdict(Rule("EX"), [part]) == "disagrees" and part.note == "distinct ends: 6"


def test_averages_of_the_welfare_game_close_in() -> None:
    chosen = Participation(CAPS, 5000.0, 0.0, 0.5, 0.5, 0.001, 0.25)
    found = data(starts=starts("discovery_welfare", {}, chosen, 2000, draws=5))
    (part,) = metrics.averages_close_in(found, "starts")
    assert isinstance(part, Sample) and len(part.values) == 5
    assert verdict(Rule("SF"), [part]) == "agrees"
    assert verdict(Rule("EX"), metrics.same_end(found, "starts", draws=True)) == "agrees"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(0.5, 0.25, "agrees"), (0.75, 0.25, "disagrees"), (0.25, 0.5, "disagrees"), (0.5, 0.0, "disagrees")],
)
def test_rate_conditions(a: float, b: float, expected: str) -> None:
    """As the lemma says: 0 < b < a and a + b < 1."""
    row = {"participation.step_decay": a, "participation.welfare_decay": b}
    found = data(lemma44=pd.DataFrame([row]))
    assert verdict(Rule("EX"), metrics.rate_conditions(found, "lemma44")) == expected


@pytest.mark.parametrize(
    ("measured", "relation", "expected"),
    [
        ([1.0, 0.4], "<=", "agrees"), ([1.0, 0.6], "<=", "disagrees"), ([1.0, 0.5 + 1e-10], "<=", "agrees"),
        ([1.0, 0.6], ">=", "agrees"), ([0.9, 0.6], ">=", "disagrees"),
    ],
)  # fmt: skip
def test_a_bound_holds_in_every_row(measured: list[float], relation: Any, expected: str) -> None:
    frame = pd.DataFrame({"round": [1, 2], "x": measured, "bound": [1.0, 0.5], "start": "corner"})
    parts = metrics.bounded(data(lemma=frame), "lemma", "x", "bound", "start", relation)
    assert verdict(Rule("BND"), parts) == expected


def test_a_bound_above_all_that_is_possible_is_vacuous() -> None:
    frame = pd.DataFrame({"round": [1, 2], "x": [0.5, 0.4], "bound": [3.0, 2.0], "start": "corner"})
    for ceiling, vacuous in ((1.0, True), (2.5, False), ("largest", True), (math.inf, False)):
        (part,) = metrics.bounded(data(lemma=frame), "lemma", "x", "bound", "start", ceiling=ceiling)
        assert isinstance(part, Statement) and part.vacuous == vacuous


def test_levels_settle_and_differ() -> None:
    still = course({0: [30, 20], 90: [50, 20.02], 100: [50, 20]})
    moving = course({0: [30, 20], 90: [50, 20.05], 100: [50, 20]})
    alike = course({0: [30, 20], 90: [20, 20], 100: [20, 20]})
    for frame, expected in ((still, "agrees"), (moving, "disagrees"), (alike, "disagrees")):
        parts = metrics.settled(data(game=frame), "game", 100, 0.1, 0.001)
        assert verdict(Rule("EX"), parts) == expected
    assert metrics.settled(data(game=still), "game", 90, 0.1, 0.001) == []  # another game's caps


def test_the_total_is_held_against_the_published_one() -> None:
    stays = course({0: [1, 2], 1000: [46000, 400], 2000: [45900, 0]})
    transient = course({0: [1, 2], 1000: [46000, 0], 2000: [46000, 8000]})
    for frame, expected in ((stays, "agrees"), (transient, "disagrees")):
        parts = metrics.total_stays(data(fig3=frame), "fig3", 1000, 0.01)
        assert verdict(Rule("EX"), parts) == expected
        assert all(part.stated == 46000 for part in parts if isinstance(part, Statement))


def test_rounds_from_which_on_clients_are_at_their_bounds() -> None:
    """Client 0 is at its cap early, leaves it, and is back at round 900; client 1 never stays at zero."""
    frame = course({0: [60, 20], 300: [50, 0], 900: [60, 1], 5000: [60, 1]})
    parts = metrics.rounds_at_bounds(data(game=frame), "game", [500, 2000], [0], [1])
    assert [part.computed for part in parts if isinstance(part, Statement)] == [900, 900, math.inf, math.inf]
    assert verdict(Rule("EX"), parts[:2]) == "agrees" and verdict(Rule("EX"), parts) == "disagrees"


def power_law(rounds: int) -> pd.DataFrame:
    """The row of a zero-sum game, of which client 0 climbs and client 1 falls at nearly constant speed."""
    row = {
        "cell": "game-toy", "round": 0, "game": "zero_sum", "game.alpha": "[1.0, 0.5]",
        "game.beta": "[0.2, 0.2]",
        "game.competitors": "sum", "participation.upper": "[1000, 1000]", "participation.step_size": 1e4,
        "participation.lower": 0.0, "participation.start": 0.5, "participation.step_decay": 0.0,
        "participation.welfare_weight": 0.0, "participation.welfare_decay": 0.0, "seed": 3, "rounds": rounds,
    }  # fmt: skip
    return pd.DataFrame([row])


def test_a_fall_is_straight_and_absorbed() -> None:
    """2 clients: F_1 = -F_0 and the sum is constant, so that client 1 falls at one speed."""
    found = data(fig4=power_law(3000))
    (part,) = metrics.straight_fall(found, "fig4", [1], 0.99)
    assert isinstance(part, Statement) and part.computed == pytest.approx(1)
    assert verdict(Rule("EX"), metrics.absorbed(found, "fig4", [1])) == "agrees"
    assert verdict(Rule("EX"), metrics.absorbed(found, "fig4", [0])) == "disagrees"  # it climbs
    assert (
        verdict(Rule("EX"), metrics.absorbed(data(fig4=power_law(3)), "fig4", [1])) == "disagrees"
    )  # too soon


def trained(losses: Mapping[int, list[float]], seeds: int = 6) -> pd.DataFrame:
    """Training loss after 0, 10, 20, ... rounds, per H, alike for all seeds."""
    rows = [
        {
            "cell": f"run-{h}-{seed}", "paper_dataset": "a", "evaluated": "server",
            "split": "train", "local_steps": h, "seed": seed, "round": 10 * n, "rounds": 10 * len(run) - 10,
            "loss": loss,
        }
        for h, run in losses.items()
        for seed in range(seeds)
        for n, loss in enumerate(run)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_more_local_steps_need_fewer_rounds() -> None:
    """H = 1 ends at 1.0 after 40 rounds; H = 5 is there after 20, H = 10 after 10, H = 20 never: at 40."""
    fast = {1: [5.0, 4, 3, 2, 1], 5: [5.0, 2, 1, 0.9, 0.8], 10: [5.0, 1, 0.9, 0.8, 0.7]}
    found = data(fig1=trained(fast))
    parts = metrics.local_steps_speed(found, "fig1")
    assert [np.exp(part.values[0]).round(6) for part in parts if isinstance(part, Sample)] == [0.5, 0.5]
    assert verdict(Rule("RT"), parts) == "agrees"
    slow = data(fig1=trained(fast | {20: [5.0, 4, 3, 2, 1.5]}))
    assert verdict(Rule("RT"), metrics.local_steps_speed(slow, "fig1")) == "disagrees"


def test_the_effect_of_two_data_sets_is_compared_unpaired() -> None:
    """Log ratios of 4 against 2, six seeds and four; cells of the same name are kept apart."""
    four, two = {1: [3.0, 2, 2, 2, 1], 20: [3.0, 1, 1, 1, 1]}, {1: [3.0, 2, 2, 2, 1], 20: [3.0, 2, 1, 1, 1]}
    found = data(fig2=trained(four, 6), fig1=trained(two, 4))
    (part,) = metrics.speed_of_local_steps(found, "fig2", "fig1")
    assert isinstance(part, TwoSamples)
    assert part.values.tolist() == pytest.approx([math.log(4)] * 6)
    assert part.others.tolist() == pytest.approx([math.log(2)] * 4)
    assert verdict(Rule("PT"), [part]) == "agrees"
    (mirror,) = metrics.speed_of_local_steps(found, "fig1", "fig2")
    assert verdict(Rule("PT"), [mirror]) == "disagrees"


def test_time_scales() -> None:
    """Participation is within 1 % of its end from round 20 on; the model of its loss at 10 and at 400."""
    game = course({0: [30, 20], 10: [50, 20], 20: [59.8, 20], 4000: [60, 20]})
    quick = trained({1: [5.0] + [1.0] * 400})
    slow = trained({1: [5.0] * 401 + [1.0]})
    for run, ratio, expected in ((quick, 2.0, "agrees"), (slow, 20 / 4010, "disagrees")):
        found = data(fig1=run, fig1_game=game.assign(paper_dataset="a"))
        (part,) = metrics.time_scales(found, {"fig1": "fig1_game"}, 0.01)
        assert isinstance(part, Sample) and 10 ** part.values[0] == pytest.approx(ratio)
        assert verdict(Rule("IN", low=-1.0, high=1.0), [part]) == expected


def test_permutation_test_by_counting() -> None:
    """Of the six ways to choose two of 1, 2, 3, 4, only {3, 4} has a mean of at least 3.5."""
    assert larger([3.0, 4.0], [1.0, 2.0]) == pytest.approx(1 / 6)
    assert larger([1.0, 2.0], [3.0, 4.0]) == 1.0
    assert larger([9.0], [1.0, 2.0]) == pytest.approx(1 / 3)
    assert larger([1.0, 2.0], [0.0]) == pytest.approx(1 / 3)
    assert (runs_needed(1), runs_needed(2)) == (3, 4)  # 20 ways, 70 ways
    with pytest.raises(ValueError, match="finite"):
        larger([1.0, math.nan], [1.0])
