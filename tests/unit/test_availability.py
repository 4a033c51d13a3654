"""Dynamics of availability, and the traces drawn from them."""

from typing import Any

import numpy as np
import pytest

from fedrepro.core.availability import draw, probabilities
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice

BASE = np.array([0.2, 0.5, 1.0])


def of(name: str, rounds: int, base: Any = BASE, **params: Any) -> Any:
    return probabilities(*bind("dynamics", Choice(name, params)), np.asarray(base), rounds)


def test_stationary_keeps_the_base_rate() -> None:
    assert of("stationary", 3).tolist() == [BASE.tolist()] * 3


def test_staircase_is_high_for_half_a_period_then_low() -> None:
    """Period 4, low .4: factors 1, 1, .4, .4, 1."""
    expected = [[0.5], [0.5], [0.2], [0.2], [0.5]]
    np.testing.assert_allclose(of("staircase", 5, [0.5], period=4), expected, rtol=1e-15)


def test_staircase_of_the_paper_switches_every_ten_rounds() -> None:
    factor = of("staircase", 40, [1.0])[:, 0]
    assert factor.tolist() == ([1.0] * 10 + [0.4] * 10) * 2


def test_staircase_of_odd_period_has_the_longer_half_high() -> None:
    """Period 5: t = 0, 1, 2 lie below 2.5."""
    assert of("staircase", 5, [1.0], period=5, low=0.0)[:, 0].tolist() == [1, 1, 1, 0, 0]


def test_sine_by_hand() -> None:
    """gamma .3, P = 20: f(0) = .7; f(5) = .3 sin(pi/2) + .7 = 1; f(15) = -.3 + .7 = .4."""
    factor = of("sine", 20, [1.0])[:, 0]
    np.testing.assert_allclose(factor[[0, 5, 15]], [0.7, 1.0, 0.4], rtol=1e-15)
    np.testing.assert_allclose(of("sine", 6, [0.5], gamma=0.1)[5], [0.5], rtol=1e-15)


def test_sine_repeats_bit_for_bit() -> None:
    values = of("sine", 20 * 50)
    assert all((values[20 * n : 20 * n + 20] == values[:20]).all() for n in range(50))


def test_probabilities_are_clipped() -> None:
    clipped = of("stationary", 2, [-0.5, 0.5, 1.5])
    assert clipped.tolist() == [[0.0, 0.5, 1.0]] * 2


def test_draw_compares_the_stream_with_the_probability() -> None:
    """The golden uniforms of seed 3 are .5630 and .1723."""
    assert draw(np.array([[0.57, 0.18]]), 3, "mnist5k").tolist() == [[True, True]]
    assert draw(np.array([[0.56, 0.17]]), 3, "mnist5k").tolist() == [[False, False]]


def test_a_longer_trace_starts_with_the_shorter_one() -> None:
    long = draw(of("sine", 50), 3, "mnist5k")
    assert (long[:17] == draw(of("sine", 17), 3, "mnist5k")).all()


def test_traces_are_coupled_across_dynamics() -> None:
    """The same uniforms: who is available at a lower probability is available at a higher one."""
    high, low = draw(of("stationary", 200), 3, "mnist5k"), draw(of("staircase", 200), 3, "mnist5k")
    assert (high | ~low).all()
    assert (high[:10] == low[:10]).all()
    assert (high != low).any()


def test_probability_zero_never_and_one_always() -> None:
    active = draw(of("stationary", 500, [0.0, 1.0]), 3, "mnist5k")
    assert not active[:, 0].any()
    assert active[:, 1].all()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_frequencies_match_the_probability(p: float) -> None:
    """20,000 draws: five standard deviations are at most 5 * .5 / sqrt(20000) = .018."""
    active = draw(np.full((2000, 10), p), 3, "mnist5k")
    assert abs(active.mean() - p) < 0.018


def test_clients_and_rounds_are_independent_draws() -> None:
    active = draw(np.full((400, 40), 0.5), 3, "mnist5k")
    assert len({tuple(row) for row in active.tolist()}) == 400
    assert len({tuple(column) for column in active.T.tolist()}) == 40


def test_another_seed_or_data_set_gives_another_trace() -> None:
    probability = np.full((50, 4), 0.5)
    traces = [draw(probability, s, d).tolist() for s, d in [(3, "mnist5k"), (4, "mnist5k"), (3, "svhn")]]
    assert traces[0] != traces[1]
    assert traces[0] != traces[2]
