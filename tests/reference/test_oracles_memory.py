"""What algorithms that remember something must do, seen from the server's steps alone.

Every client's update is given, not trained: with the i-th unit vector as the update of client i, one step
of the server shows the weight of every client.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.core.algorithm import Algorithm, Cohort, State
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice
from tests.helpers import trace_of

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def algorithm_of(name: str, **params: Any) -> Algorithm:
    return Algorithm(*bind("algorithm", Choice(name, params)))


def cohort_of(present: Bools, t: int = 0, probability: Floats | None = None) -> Cohort:
    """Everybody who is there, eta_g = 1; ties are broken at random."""
    clients = torch.from_numpy(np.flatnonzero(present))
    likely = torch.from_numpy(np.ones(len(present)) if probability is None else probability)
    tie = torch.from_numpy(np.random.default_rng(t).random(len(present)))
    return Cohort(t, clients, likely[clients], tie[clients], torch.ones(len(clients)), len(present), 0.1, 1.0)


def step(algorithm: Algorithm, state: State, cohort: Cohort, updates: Tensor) -> tuple[Tensor, list[int]]:
    """The server's movement in one round in which the clients' updates are the rows given; who trained."""
    before = state["server"].clone()
    cohort = algorithm.select(state, cohort)
    algorithm.round(state, cohort, updates[cohort.clients])
    return state["server"] - before, cohort.clients.tolist()


def weights(algorithm: Algorithm, trace: Bools) -> Floats:
    """The weight of every client's update in every round, (T, m)."""
    rounds, m = trace.shape
    state = algorithm.init(torch.zeros(m, dtype=torch.float64), m)
    unit = torch.eye(m, dtype=torch.float64)
    return np.array([step(algorithm, state, cohort_of(trace[t], t), unit)[0].numpy() for t in range(rounds)])


def alone(*pieces: tuple[int, int]) -> Bools:
    """The trace of a single client: runs of (availability, rounds)."""
    return np.concatenate([np.full((rounds, 1), there, dtype=np.bool_) for there, rounds in pieces])


def test_known_probabilities_make_the_expected_step_the_mean_update() -> None:
    """Over all sets of three clients, each with its probability."""
    probability = np.array([0.3, 0.6, 1.0])
    algorithm, expected = algorithm_of("fedavg_known"), np.zeros(3)
    for present in product([False, True], repeat=3):
        there = np.array(present)
        state = algorithm.init(torch.zeros(3, dtype=torch.float64), 3)
        cohort = cohort_of(there, probability=probability)
        moved, _ = step(algorithm, state, cohort, torch.eye(3, dtype=torch.float64))
        expected += np.where(there, probability, 1 - probability).prod() * moved.numpy()
    np.testing.assert_allclose(expected, 1 / 3, rtol=0, atol=1e-15)


def test_fedau_weighs_with_the_mean_of_earlier_intervals() -> None:
    """Available 1, 0, 0, 1, 1, 0, 1: intervals 1, 3, 1, 2, of which a weight knows those before it."""
    used = weights(algorithm_of("fedau"), alone((1, 1), (0, 2), (1, 2), (0, 1), (1, 1), (1, 1)))[:, 0]
    np.testing.assert_allclose(used, [1, 0, 0, 1, 2, 0, 5 / 3, 7 / 4], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("silent", "first", "second"),
    [
        (49, 1, 50),  # the interval that ends on return is 50, and is known only afterwards
        (50, 50, 51 / 2),  # closed by silence: 50, then 1 on return
        (51, 50, 52 / 2),
        (99, 50, 100 / 2),
        (100, 50, 101 / 3),
        (120, 50, 121 / 3),
    ],
)
def test_fifty_silent_rounds_close_an_interval_of_fedau(silent: int, first: float, second: float) -> None:
    used = weights(algorithm_of("fedau"), alone((0, silent), (1, 2)))[:, 0]
    assert not used[:silent].any()
    np.testing.assert_allclose(used[silent:], [first, second], rtol=0, atol=1e-12)


def test_fedau_cuts_off_where_it_is_told_to() -> None:
    """Silent for 7 rounds with a cutoff of 3: 3, 3, then 2 on return."""
    used = weights(algorithm_of("fedau", cutoff=3), alone((0, 7), (1, 2)))[:, 0]
    np.testing.assert_allclose(used[7:], [3, 8 / 3], rtol=0, atol=1e-12)


def test_fedau_is_unbiased_in_the_long_run() -> None:
    """The mean interval of a client that comes every third round is 3, so weights add up to the rounds."""
    trace = np.zeros((300, 2), dtype=np.bool_)
    trace[2::3, 0] = trace[:, 1] = True
    used = weights(algorithm_of("fedau"), trace)
    np.testing.assert_allclose(2 * used.sum(0), [300 - 2, 300], rtol=0, atol=1e-9)


def test_gfedavg_stretches_tenfold_after_a_hundred_rounds() -> None:
    """Updates of 1, absent in rounds 50 to 59: 90 steps become 900; the period restarts from there."""
    algorithm, present = algorithm_of("gfedavg"), alone((1, 50), (0, 10), (1, 141))
    state = algorithm.init(torch.zeros(1, dtype=torch.float64), 1)
    server, unstretched = [], []
    for t in range(len(present)):
        step(algorithm, state, cohort_of(present[t], t), torch.ones(1, 1, dtype=torch.float64))
        models = {name: float(model) for name, model in algorithm.models(state).items()}
        server.append(models["server"])
        unstretched.append(models["pre_stretch"])
    assert server[98:101] == [89, 900, 901] and server[198:] == [999, 1900, 1901]
    assert unstretched[98:101] == [89, 90, 901] and unstretched[198:] == [999, 1000, 1901]


def test_mifa_and_fedvarp_by_hand() -> None:
    """m = 2. Client 0 in round 0, client 1 in round 1, nobody, client 0; weights of their updates.

    MIFA: (1/2, 0), then always (1/2, 1/2). FedVARP: (1, 0); (0, 1) plus half of client 0's; nothing; new
    minus stored of client 0, that is zero for equal updates, plus (1/2, 1/2).
    """
    trace = trace_of([0], [1], [], [0], clients=2)
    half = [0.5, 0.5]
    assert weights(algorithm_of("mifa"), trace).tolist() == [[0.5, 0], half, half, half]
    assert weights(algorithm_of("fedvarp"), trace).tolist() == [[1, 0], [0.5, 1], [0, 0], half]
    assert weights(algorithm_of("fedvarp", empty="mean"), trace).tolist() == [[1, 0], [0.5, 1], half, half]


@pytest.mark.parametrize("algorithm", [algorithm_of("mifa"), algorithm_of("fedvarp", empty="mean")])
@pytest.mark.parametrize("early", [1.0, 1e4])
def test_the_running_mean_stays_the_mean_of_what_is_stored(algorithm: Algorithm, early: float) -> None:
    """In single precision, over 600 rounds, seen by the step that an empty round would make.

    After early updates of size 10^4 a running mean alone is off by 10^-4 or more, so it must be renewed.
    """
    rng, m, d = np.random.default_rng(5), 6, 8
    stored, state = np.zeros((m, d)), algorithm.init(torch.zeros(d), m)
    nobody = np.zeros(m, dtype=np.bool_)
    worst = 0.0
    for t in range(600):
        present, size = rng.random(m) < 0.4, early if t < 50 else 1
        updates = torch.from_numpy(size * rng.standard_normal((m, d))).float()
        step(algorithm, state, cohort_of(present, t), updates)
        stored[present] = updates.double().numpy()[present]
        probe = {name: value.clone() for name, value in state.items()}
        probe["server"].zero_()
        moved, _ = step(algorithm, probe, cohort_of(nobody, t + 1), updates)
        worst = np.abs(moved.double().numpy() - stored.mean(0)).max()
        assert early > 1 or worst < 1e-5, t
    assert worst < 1e-5
    assert np.abs(stored.mean(0)).max() > 0.1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=12),
    st.sampled_from([1, 2, 4, None]),
)
def test_f3ast_selects_at_most_the_cap_among_those_who_are_there(
    rows: list[list[bool]], cap: int | None
) -> None:
    """And only they move the server."""
    trace, algorithm = np.array(rows), algorithm_of("f3ast", cap=cap, beta=0.2)
    state = algorithm.init(torch.zeros(5, dtype=torch.float64), 5)
    for t, present in enumerate(trace):
        moved, trained = step(algorithm, state, cohort_of(present, t), torch.eye(5, dtype=torch.float64))
        there = set(np.flatnonzero(present))
        assert set(trained) <= there and len(trained) == len(set(trained))
        assert len(trained) == min(len(there), 5 if cap is None else cap)
        assert set(np.flatnonzero(moved.numpy())) == set(trained)


@pytest.mark.parametrize(("initial_rate", "start"), [(None, 2.0), (0.9, 4.5), (0.1, 0.5)])
def test_the_rates_of_f3ast_add_up_to_the_cap(initial_rate: float | None, start: float) -> None:
    """In the limit, and at once from the default start.

    A chosen client's weight is 1 / (m r_i), and r_i falls by 1 - beta in every round without it, so steps
    show every rate.
    """
    beta, cap, m = 0.05, 2, 5
    algorithm = algorithm_of("f3ast", cap=cap, beta=beta, initial_rate=initial_rate)
    used = weights(algorithm, np.ones((300, m), dtype=np.bool_))
    assert ((used > 0).sum(1) == cap).all()
    rates = np.full(m, start / m)
    for row in used:
        shown = np.divide(1, m * row, out=np.zeros(m), where=row > 0)
        rates = np.where(row > 0, shown, (1 - beta) * rates)
        start = (1 - beta) * start + beta * cap
        assert rates.sum() == pytest.approx(start, abs=1e-6)
    assert rates.sum() == pytest.approx(cap, abs=1e-5)
    np.testing.assert_allclose((used > 0)[-100:].mean(0), cap / m, rtol=0, atol=0.02)


def test_the_weights_of_a_round_of_f3ast_sum_to_about_one() -> None:
    """With the default parameters, when more clients are there than may train."""
    used = weights(algorithm_of("f3ast"), np.ones((60, 20), dtype=np.bool_))
    assert ((used > 0).sum(1) == 10).all()
    np.testing.assert_allclose(used.sum(1), 1, rtol=0, atol=0.01)


def test_f3ast_prefers_the_client_that_was_chosen_least() -> None:
    """One of three at a time; client 2 comes late, and is chosen until it is no longer the least chosen."""
    trace = trace_of([0, 1], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2], clients=3)
    used = weights(algorithm_of("f3ast", cap=1, beta=0.1), trace) > 0
    assert used[:2].sum(0).tolist() == [1, 1, 0]
    assert used[3].tolist() == [False, False, True]


def test_ties_in_f3ast_go_to_the_smaller_number() -> None:
    """Equal rates at the start: the two smallest of the tie-breaking numbers."""
    present = np.array([True, True, False, True, True])
    cohort, algorithm = cohort_of(present, 3), algorithm_of("f3ast", cap=2)
    state = algorithm.init(torch.zeros(5, dtype=torch.float64), 5)
    _, trained = step(algorithm, state, cohort, torch.eye(5, dtype=torch.float64))
    expected = cohort.clients[cohort.tiebreak.argsort()[:2]].tolist()
    assert sorted(trained) == sorted(expected) != [0, 1]


def test_the_rates_of_f3ast_fall_in_rounds_without_anybody() -> None:
    """One client of m = 2 with r(0) = 1/2, beta = 1/10: r = .55, then .495, then .5455."""
    used = weights(algorithm_of("f3ast", cap=1, beta=0.1), trace_of([0], [], [0], clients=2))
    np.testing.assert_allclose(used[:, 0], [0.5 / 0.55, 0, 0.5 / 0.5455], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("echo_clip", "clipped"), [(None, 7.5), (2.5, 2.5), (7.0, 7.0), (8.0, 7.5)])
def test_the_echo_clip_bounds_the_joint_innovation_and_not_the_step(
    echo_clip: float | None, clipped: float
) -> None:
    """m = 2, k = 0, updates (9, 12) and (0, 0): their mean has norm 15/2; eta_g = 2 comes after the bound."""
    algorithm = algorithm_of("fedswe", echo_clip=echo_clip)
    state = algorithm.init(torch.zeros(2, dtype=torch.float64), 2)
    updates = torch.tensor([[9.0, 12.0], [0.0, 0.0]], dtype=torch.float64)
    cohort = replace(cohort_of(np.ones(2, dtype=np.bool_)), global_lr=2.0)
    moved, _ = step(algorithm, state, cohort, updates)
    np.testing.assert_allclose(moved.numpy(), [1.2 * clipped, 1.6 * clipped], rtol=0, atol=1e-12)


def test_the_bound_sees_echoes_and_virtual_clients() -> None:
    """m = k = 2, client 0 first there in round 1: echo 2 and |A| + k = 3 make 2/3 of (9, 12), of norm 10."""
    updates = torch.tensor([[9.0, 12.0], [0.0, 0.0]], dtype=torch.float64)
    for echo_clip, norm in ((9.9, 9.9), (10.1, 10)):
        algorithm = algorithm_of("fedswe", k_over_m=1.0, echo_clip=echo_clip)
        state = algorithm.init(torch.zeros(2, dtype=torch.float64), 2)
        moved, _ = step(algorithm, state, cohort_of(np.array([True, False]), 1), updates)
        assert float(moved.norm()) == pytest.approx(norm, abs=1e-12)
