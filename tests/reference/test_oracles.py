"""Identities that hold between algorithms, whatever the data."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedrepro.core.algorithm import Algorithm, Cohort, State
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice
from tests.helpers import Spy, run_engine, spec_of, synthetic_task, trace_of

SPEC = spec_of(numerics="fp64", rounds=5, model=Choice("mlp", {"hidden": (6,)}), local_lr=0.3)
ALWAYS = trace_of(*[[0, 1, 2, 3]] * 5)


def servers(algorithm: Choice, trace: NDArray[np.bool_] = ALWAYS, global_lr: float = 1.0) -> torch.Tensor:
    """The server's weights after every round, (T + 1, d); every client is there with probability 1."""
    spec = spec_of(
        algorithm=algorithm,
        numerics="fp64",
        rounds=len(trace),
        model=SPEC.model,
        local_lr=0.3,
        global_lr=global_lr,
    )
    spy = Spy(spec)
    task = replace(synthetic_task(spec, trace), probability=np.ones(trace.shape))
    run_engine(spec, task, algorithm=spy)
    return torch.stack(spy.servers)


@pytest.mark.parametrize(
    "other",
    [
        Choice("fedavg_all"),
        Choice("fedavg_known"),
        Choice("fedau"),
        Choice("f3ast", {"cap": None}),
        Choice("f3ast", {"cap": None, "initial_rate": 1.0, "beta": 0.5}),
        Choice("f3ast", {"cap": 4}),
        Choice("gfedavg", {"amplification": 1.0, "period": 2}),
        Choice("mifa"),
        Choice("mifa", {"normalise": True}),
        Choice("fedvarp"),
        Choice("fedswe", {"k_over_m": 0.0}),
        Choice("fedswe", {"k_over_m": 0.0, "echo_clip": 100.0}),
    ],
    ids=str,
)
def test_with_everybody_there_the_algorithms_are_one(other: Choice) -> None:
    """Weights 1/|A|, 1/m, 1/(m p), intervals and rates of 1 agree; echoes are 1; what was stored cancels."""
    expected = servers(Choice("fedavg_active"))
    torch.testing.assert_close(servers(other), expected, rtol=0, atol=1e-12)
    assert (expected[-1] - expected[0]).norm() > 0.05


def test_without_amplification_gfedavg_is_over_active() -> None:
    """Whatever the trace; amplified, it parts from it after the period, and not before."""
    trace = trace_of([0, 1], [2], [], [1, 2, 3], [])
    expected = servers(Choice("fedavg_active"), trace)
    ours = servers(Choice("gfedavg", {"amplification": 1.0, "period": 3}), trace)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    amplified = servers(Choice("gfedavg", {"amplification": 4.0, "period": 3}), trace)
    torch.testing.assert_close(amplified[:3], expected[:3], rtol=0, atol=0)
    stretched = expected[0] + 4 * (expected[3] - expected[0])
    torch.testing.assert_close(amplified[3], stretched, rtol=0, atol=1e-12)


def test_the_step_of_gfedavg_does_not_know_the_global_rate() -> None:
    choice = Choice("gfedavg", {"amplification": 2.0, "period": 2})
    assert torch.equal(servers(choice, global_lr=3.0), servers(choice))


@pytest.mark.parametrize("k_over_m", [0.25, 1.0, 3.0])
def test_with_everybody_there_k_shortens_the_step_to_m_over_m_plus_k(k_over_m: float) -> None:
    """(sum_i (x + D_i) + k x) / (m + k) = x + m/(m+k) mean(D)."""
    ours = servers(Choice("fedswe", {"k_over_m": k_over_m}))
    expected = servers(Choice("fedavg_active"), global_lr=1 / (1 + k_over_m))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_over_all_is_over_active_with_the_step_of_the_present_share() -> None:
    """One round with three of four clients: (1/m) sum = (3/4) mean."""
    trace = trace_of([0, 1, 3])
    ours = servers(Choice("fedavg_all"), trace)
    torch.testing.assert_close(ours, servers(Choice("fedavg_active"), trace, 0.75), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "name", ["fedavg_active", "fedavg_all", "fedavg_known", "fedau", "f3ast", "gfedavg", "fedvarp", "fedswe"]
)
def test_nothing_moves_in_an_empty_round(name: str) -> None:
    trace = trace_of([0, 1], [], [], [2], [])
    weights = servers(Choice(name), trace)
    for t, moves in enumerate([True, False, False, True, False]):
        assert torch.equal(weights[t + 1], weights[t]) is not moves


@pytest.mark.parametrize("algorithm", [Choice("mifa"), Choice("fedvarp", {"empty": "mean"})], ids=str)
def test_memory_moves_the_server_in_an_empty_round(algorithm: Choice) -> None:
    """By the same step in every further empty round; not before anybody was there."""
    weights = servers(algorithm, trace_of([], [0, 1], [], []))
    assert torch.equal(weights[1], weights[0])
    step = weights[3] - weights[2]
    assert step.norm() > 0.01
    torch.testing.assert_close(weights[4] - weights[3], step, rtol=0, atol=1e-14)


def test_the_mean_over_everybodys_latest_update_moves_mifa() -> None:
    """From a common start: three of four clients count for 3/4 of their mean, and again when nobody comes."""
    trace = trace_of([0, 1, 3], [])
    once = servers(Choice("fedavg_active"), trace)[1] - servers(Choice("fedavg_active"), trace)[0]
    ours = servers(Choice("mifa"), trace)
    torch.testing.assert_close(ours[1] - ours[0], 0.75 * once, rtol=0, atol=1e-14)
    torch.testing.assert_close(ours[2] - ours[1], 0.75 * once, rtol=0, atol=1e-14)


def test_a_normalised_memory_takes_the_rate_of_the_round_it_is_used_in() -> None:
    """eta_l(t) = eta_0 / sqrt(t / 10 + 1): what was stored in round 0 moves less in round 1."""
    ours = servers(Choice("mifa", {"normalise": True}), trace_of([0, 1, 3], []))
    torch.testing.assert_close(ours[2] - ours[1], (ours[1] - ours[0]) / 1.1**0.5, rtol=0, atol=1e-14)


def plugin_run(k_over_m: float, trace: NDArray[np.bool_]) -> tuple[State, NDArray[np.float64]]:
    """FedSWE on weights of size 1 whose every update is 1; returns the state and the echoes used (T, m)."""
    algorithm = Algorithm(*bind("algorithm", Choice("fedswe", {"k_over_m": k_over_m})))
    rounds, m = trace.shape
    state = algorithm.init(torch.zeros(1, dtype=torch.float64), m)
    echoes = np.zeros((rounds, m))
    for t in range(rounds):
        clients = torch.from_numpy(np.flatnonzero(trace[t]))
        before = state["last_active"].clone()
        ones = torch.ones(len(clients), dtype=torch.float64)
        cohort = Cohort(t, clients, ones, ones, ones, m, 0.1, 1.0)
        echoes[t, trace[t]] = (t - before[clients]).numpy()
        algorithm.round(state, cohort, torch.ones(len(clients), 1, dtype=torch.float64))
    return state, echoes


traces = st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(traces)
def test_echoes_of_a_client_add_up_to_the_rounds_so_far(rows: list[list[bool]]) -> None:
    """A client active in round R - 1 has echoed R times in all, whenever it was there before."""
    trace = np.array(rows)
    _, echoes = plugin_run(0.5, trace)
    for t, i in zip(*np.nonzero(trace), strict=True):
        assert echoes[: t + 1, i].sum() == t + 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), max_size=25))
def test_a_single_client_loses_no_step(rows: list[bool]) -> None:
    """m = 1, k = 0, all updates 1: after a round R - 1 in which it is there, the server stands at R."""
    trace = np.array([*rows, True])[:, None]
    state, _ = plugin_run(0.0, trace)
    assert float(state["server"][0]) == len(trace)


def test_a_stale_client_by_hand() -> None:
    """m = 2, k = 1, updates 1. Round 0, client 0: (0 + 1 + 0) / 2 = 1/2. Round 1, nobody.

    Round 2, both: client 0 (model 1/2, echo 2) proposes 5/2, client 1 (model 0, echo 3) proposes 3; the
    server's 1/2 enters once: (5/2 + 3 + 1/2) / 3 = 2. Both clients then hold 2.
    """
    state, echoes = plugin_run(0.5, trace_of([0], [], [0, 1], clients=2))
    assert echoes.tolist() == [[1, 0], [0, 0], [2, 3]]
    assert float(state["server"][0]) == pytest.approx(2, abs=1e-15)
    assert state["local"].tolist() == [[2.0], [2.0]]
    assert state["last_active"].tolist() == [2, 2]


def test_an_absent_client_keeps_its_own_model() -> None:
    """As above after round 0: client 1 still holds the initial model, client 0 the new one."""
    state, _ = plugin_run(0.5, trace_of([0], clients=2))
    assert state["local"].tolist() == [[0.5], [0.0]]
    assert state["last_active"].tolist() == [0, -1]
