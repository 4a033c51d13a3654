"""Game cells, the analyses of the lemmas, and training in a game."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedrepro.cells import analysis, game
from fedrepro.core import engine
from fedrepro.core.game import Game, contributions
from fedrepro.core.job import Context, bind
from fedrepro.core.local import local_phase
from fedrepro.core.minibatches import Sampler, SubsetSampler
from fedrepro.core.schedule import recorded_rounds
from fedrepro.core.spec import AnalysisSpec, Choice, GameSpec, Participation, Partition
from fedrepro.core.tables import decode, encode
from fedrepro.errors import FedreproError
from fedrepro.provenance.identity import cell_id
from fedrepro.provenance.manifest import expected_rows
from tests.helpers import Spy, run_engine, spec_of, synthetic_model, synthetic_task, trace_of

UPPER = (15000, 8000, 18000, 6000, 13000)
GAME = GameSpec(Choice("discovery"), Participation(UPPER, 2000.0), seed=3, rounds=300, records=20)
SELECTION = Participation(UPPER, 3000.0, 1.0, 0.5, 0.5, 0.1, 0.25)
# Four clients with ten images each; the last is driven out, the others move.
SMALL = Participation((10, 10, 10, 10), 60.0, 0.0, 0.6)
SHARES = {"cost_share": (0.2, 0.5, 0.9, 1.5), "highest_cost": 2.0}


def rows(spec: GameSpec) -> pd.DataFrame:
    result = game.run(spec, {}, Context())
    assert result.status == "ok"
    return decode(result.files["metrics"].content).to_pandas()


def analysed(
    name: str, chosen: str, participation: Participation, rounds: int, **params: Any
) -> pd.DataFrame:
    spec = AnalysisSpec(
        Choice(name, params), 3, rounds=rounds, game=Choice(chosen), participation=participation
    )
    return decode(analysis.run(spec, {}, Context()).files["metrics"].content).to_pandas()


@pytest.mark.parametrize("name", ["discovery", "discovery_welfare", "zero_sum"])
def test_rows_of_a_game_cell(name: str) -> None:
    spec = replace(GAME, game=Choice(name))
    frame = rows(spec)
    assert len(frame) == expected_rows(spec) and list(frame["client"][:6]) == [0, 1, 2, 3, 4, 0]
    assert sorted(frame["round"].unique()) == list(recorded_rounds(spec))
    first = frame[frame["round"] == 0]
    np.testing.assert_array_equal(first["contribution"], 1 + (np.array(UPPER) - 1) / 2)
    np.testing.assert_array_equal(first["upper"], UPPER)
    assert frame["equilibrium"].isna().all() == (name == "zero_sum")
    assert cell_id(spec).startswith(f"game-{name}-s3-")


def test_a_game_cell_ends_at_the_equilibrium() -> None:
    last = rows(replace(GAME, rounds=1000)).tail(5)
    np.testing.assert_allclose(last["contribution"], last["equilibrium"], atol=1e-3)
    assert last["regret"].max() < 1e-6


def test_lemma_4_3_holds_and_is_asked_of_the_right_games_only() -> None:
    for step in (1e5, 1e3):
        frame = analysed("linear_rate", "discovery", Participation(UPPER, step), 400)
        assert (frame["distance"] <= frame["distance_bound"] + 1e-9).all()
        assert (frame["share_error"] <= frame["share_bound"] + 1e-12).all()
        assert frame["solver_distance"].max() < 1e-6
    with pytest.raises(FedreproError, match=r"Lemma 4\.3 holds up to mu_F / L_F\^2 = 100000, not for 200000"):
        analysed("linear_rate", "discovery", Participation(UPPER, 2e5), 4)
    for name, guarantee in (("discovery_welfare", "merely"), ("zero_sum", "none")):
        with pytest.raises(FedreproError, match=f"{name} has the guarantee '{guarantee}'"):
            analysed("linear_rate", name, Participation(UPPER, 1.0), 4)


def test_lemma_4_4_holds_but_for_its_weights_from_the_equilibrium() -> None:
    """(i) and (ii) from all starts; (iv) as printed is 0 from N*, which lambda_0 = 0.1 leaves."""
    frame = analysed("welfare_bounds", "discovery_welfare", SELECTION, 3000)
    slack = 1e-6
    assert (frame["welfare_gap"] <= frame["welfare_upper"] + slack).all()
    assert (frame["welfare_gap"] >= frame["welfare_lower"] - slack).all()
    assert (frame["dual_gap"] <= frame["dual_gap_bound"] + slack).all() and (frame["dual_gap"] >= 0).all()
    assert (frame["share_error"] <= frame["share_bound_of_proof"] + slack).all()
    best = frame[frame["start"] == "equilibrium"]
    assert (best["share_bound"] == 0).all() and (best["share_error"] > 1e-3).all()
    others = frame[frame["start"] != "equilibrium"]
    assert (others["share_bound"] > 1).all(), "as printed it says nothing"
    with pytest.raises(FedreproError, match=r"Lemma 4\.4 holds for .* zero_sum has the guarantee 'none'"):
        analysed("welfare_bounds", "zero_sum", SELECTION, 4)
    with pytest.raises(FedreproError, match=r"positive participation.welfare_weight"):
        analysed("welfare_bounds", "discovery_welfare", replace(SELECTION, welfare_weight=0.0), 4)


def test_lemma_4_4_bounds_by_hand() -> None:
    """R = 1 of one round: (2 D^2 + (C_F + lambda C_H)^2 gamma^2) / (2 gamma lambda), and (ii)."""
    frame = analysed("welfare_bounds", "discovery_welfare", SELECTION, 3)
    found = Game(*bind("game", Choice("discovery_welfare")), SELECTION, 3)
    squared = ((np.array(UPPER) - 1) ** 2).sum() / 2  # D^2
    speed = (np.linalg.norm(found.coefficients.marginals) + 0.1 * 5**0.5) ** 2
    first = frame[frame["round"] == 1].iloc[0]
    assert first["welfare_upper"] == pytest.approx((2 * squared + speed * 3000**2) / (2 * 3000 * 0.1))
    gap = (0.1 * squared + speed * 3000**2 * 0.1 / 2 + 5**0.5 * (2 * squared) ** 0.5 * 3000 * 0.01) / 300
    assert first["dual_gap_bound"] == pytest.approx(gap)


CHECKED = {  # game, participation, quantities that hold, and those that do not
    "discovery": (
        Participation(UPPER, 2000.0),
        ["smallest eigenvalue", "20 starts: largest distance"],
        ["100 draws: share with an interior"],
    ),
    "discovery_welfare": (
        SELECTION,
        ["caps of clients", "a + b"],
        ["h rewards", "h is strictly convex", "several equilibria", "leaves its cap", "totals 46,000"],
    ),
    "zero_sum": (
        Participation(UPPER, 3e6),
        ["m = 2", "m = 5"],
        ["smallest payoff", "symmetric Jacobian", "second derivative", "climb at once"],
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_what_the_paper_says_of_its_games(name: str) -> None:
    participation, true, false = CHECKED[name]
    frame = analysed("participation_checks", name, participation, 1500, draws=100, samples=2000)
    for part, holds in [(part, True) for part in true] + [(part, False) for part in false]:
        (row,) = frame[frame["quantity"].str.contains(part, regex=False)].itertuples()
        assert row.holds == holds, row
    climbing = frame.loc[frame["quantity"].str.contains("climb"), "computed"]
    assert list(climbing) == [1] * (name == "zero_sum")


def test_subsets_are_drawn_anew_and_from_the_own_images() -> None:
    """Client 0 contributes 2.4 images (three), then 7; client 1 all its 20: steps of 5, epochs of 4 steps."""
    owner = np.repeat([0, 1], [10, 20])
    sizes = np.array([[2.4, 20], [7, 20], [7, 20]])
    spec = spec_of(batch_size=5, local_steps=4, partition=Partition(2, 0.5))
    sampler = SubsetSampler(owner, trace_of(*[[0, 1]] * 3, clients=2), sizes, spec)
    first, second, third = (sampler.draw(np.array([0, 1]), t) for t in range(3))
    assert first.sizes.tolist() == [3, 5] and second.sizes.tolist() == [5, 5]
    subset = set(first.images[0, 0, :3])
    assert all(set(step[:3]) == subset for step in first.images[0]) and len(subset) == 3 and max(subset) < 10
    assert len(set(second.images[0, :, :5].ravel())) <= 7
    assert sorted(first.images[1].ravel()) == list(range(10, 30)), "one epoch"
    assert (second.images != third.images).any()
    again = SubsetSampler(owner, trace_of(*[[0, 1]] * 3, clients=2), sizes, spec).draw(np.array([1]), 0)
    np.testing.assert_array_equal(again.images[0], first.images[1])
    plain = Sampler(owner, trace_of(*[[0, 1]] * 3, clients=2), spec).draw(np.array([0, 1]), 0)
    np.testing.assert_array_equal(plain.dropout, first.dropout)


def test_more_images_than_a_client_holds_are_refused() -> None:
    with pytest.raises(FedreproError, match="client 1 is to train on 21 images in round 0, but holds 20"):
        SubsetSampler(
            np.repeat([0, 1], [10, 20]),
            trace_of([0, 1], clients=2),
            np.array([[1, 20.5]]),
            spec_of(partition=Partition(2, 0.5)),
        )


def in_game(participation: Participation, rounds: int, **changes: Any) -> tuple[Any, Any, Any]:
    """A specification with a game, its task, and the course of the game."""
    spec = spec_of(
        algorithm=Choice("incentfedavg"),
        game=Choice("discovery_welfare", SHARES),
        participation=participation,
        rounds=rounds,
        numerics="fp64",
        **changes,
    )
    found = Game(*bind("game", Choice("discovery_welfare", SHARES)), participation, spec.seed)
    path = contributions(found, participation, rounds)
    task = synthetic_task(spec)
    return spec, replace(task, active=task.active & (path[:-1] > 0), contributions=path), path


def test_the_server_averages_with_the_new_numbers_of_those_who_trained() -> None:
    """Against the sum over clients, each trained alone; client 3 leaves and neither trains nor counts."""
    spec, task, path = in_game(SMALL, 6)
    assert path[0, 3] > 0 and path[-1, 3] == 0 and (path[1:] != path[:-1]).any()
    spy = Spy(spec)
    outcome = run_engine(spec, task, algorithm=spy)
    model, sampler = synthetic_model(spec), engine.sampler_of(spec, task)
    for t in range(spec.rounds):
        state = {"server": spy.servers[t]}
        cohort, delta = engine.updates(spec, task, spy, model, local_phase, sampler, state, t)
        trained = [i for i in range(4) if path[t, i] > 0]
        assert cohort.clients.tolist() == trained
        total = sum(path[t + 1, i] for i in trained)
        expected = sum(
            path[t + 1, i] / total * (spy.servers[t] + delta[row]) for row, i in enumerate(trained)
        )
        torch.testing.assert_close(spy.servers[t + 1], expected, rtol=0, atol=1e-12)
    active = outcome.metrics.to_pandas().drop_duplicates("round")["active"]
    assert list(active) == [0, *(path[:-1] > 0).sum(axis=1)]


def test_with_equal_and_fixed_numbers_it_is_fedavg() -> None:
    """All clients stay at their caps, which are all their images: FedAvg on the same minibatches."""
    still = Participation((10, 10, 10, 10), 60.0, 10.0)
    spec, task, path = in_game(still, 4)
    assert (path == 10).all()
    ours, fedavg = Spy(spec), Spy(replace(spec, algorithm=Choice("fedavg_active")))
    run_engine(spec, task, algorithm=ours)
    run_engine(spec, task, algorithm=fedavg)
    for one, other in zip(ours.servers, fedavg.servers, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert (ours.servers[0] != ours.servers[-1]).any()


def test_a_run_in_a_game_is_repeated_to_the_byte() -> None:
    spec, task, _ = in_game(SMALL, 5)
    assert encode(run_engine(spec, task).metrics) == encode(run_engine(spec, task).metrics)
