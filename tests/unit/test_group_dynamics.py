"""Dynamics of groups and of one common p, with values by hand."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrepro.core.availability import blocks, draw, participation, probabilities
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice
from fedrepro.errors import FedreproError


def of(name: str, rounds: int, base: list[float], **params: Any) -> NDArray[np.float64]:
    return probabilities(*bind("dynamics", Choice(name, params)), np.array(base), rounds)


def test_blocks_are_equal_and_contiguous() -> None:
    assert blocks(6, 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert blocks(3, 1).tolist() == [0, 0, 0]


def test_groups_must_divide_the_clients() -> None:
    message = r"'dynamics\.groups': 5 clients cannot be cut into 2 equal groups; use a number that divides 5"
    for name in ("group_windows", "cyclic"):
        with pytest.raises(FedreproError, match=message):
            of(name, 3, [0.5] * 5, groups=2)


@pytest.mark.parametrize(
    ("t", "group"), [(0, 0), (1, 0), (49, 0), (50, 1), (51, 1), (99, 1), (100, 0), (149, 0), (150, 1)]
)
def test_boundaries_of_the_papers_windows(t: int, group: int) -> None:
    """Equations (31) and (32) as 50/50: group 0 while t mod 100 < 50; the other one has exactly 0."""
    expected = [[0.25, 0.0], [0.0, 0.75]][group]
    assert of("group_windows", 151, [0.25, 0.75])[t].tolist() == expected


def test_windows_of_three_groups_need_not_be_whole() -> None:
    """P = 10, G = 3: boundaries 10/3 and 20/3, so the rounds 0-3, 4-6 and 7-9 of every period."""
    found = of("group_windows", 20, [1.0, 1.0, 1.0], period=10, groups=3)
    assert found.argmax(axis=1).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2] * 2
    assert (found.sum(axis=1) == 1).all()


def test_global_staircase_gives_the_groups_different_steps() -> None:
    """P = 100, stairs of 20: in blocks of ten rounds 1, .4, 1, ...; group 1 opens at t = 50 on a low step."""
    found = of("group_windows", 200, [1.0, 1.0], inside="staircase")[::10]
    np.testing.assert_array_equal(found[:5], [[1, 0], [0.4, 0], [1, 0], [0.4, 0], [1, 0]])
    np.testing.assert_array_equal(found[5:10], [[0, 0.4], [0, 1], [0, 0.4], [0, 1], [0, 0.4]])
    np.testing.assert_array_equal(found[10:], found[:10])


def test_window_staircase_starts_anew_in_every_window() -> None:
    """Both groups see 1, .4, 1, .4, 1 in blocks of ten rounds."""
    found = of("group_windows", 200, [1.0, 1.0], inside="staircase", origin="window")
    steps = np.repeat([1, 0.4, 1, 0.4, 1], 10)
    np.testing.assert_array_equal(found[:50], np.stack([steps, 0 * steps], axis=1))
    np.testing.assert_array_equal(found[50:100], np.stack([0 * steps, steps], axis=1))
    np.testing.assert_array_equal(found[100:], found[:100])


def test_window_staircase_starts_at_the_first_whole_round() -> None:
    """P = 10, G = 3, stairs of 2: windows of 4, 3 and 3 rounds, each beginning high."""
    params = {"period": 10, "groups": 3, "inside": "staircase", "stair_period": 2, "origin": "window"}
    found = of("group_windows", 10, [1.0, 1.0, 1.0], low=0.0, **params).sum(axis=1)
    assert found.tolist() == [1, 0, 1, 0, 1, 0, 1, 1, 0, 1]


def test_expected_cohorts_of_the_windows() -> None:
    """Four clients a group, p = .5: 2 a round, and .4 * 2 = .8 on a low step."""
    static = of("group_windows", 100, [0.5] * 8).sum(axis=1)
    np.testing.assert_allclose(static, 2.0, rtol=1e-15)
    stairs = of("group_windows", 100, [0.5] * 8, inside="staircase").sum(axis=1)
    np.testing.assert_allclose(stairs, np.tile(np.repeat([2.0, 0.8], 10), 5), rtol=1e-15)


def test_a_dark_group_is_never_drawn() -> None:
    active = draw(of("group_windows", 1000, [1.0] * 4), 3, "mnist5k")
    first = np.arange(1000) % 100 < 50
    assert (active == np.stack([first, first, ~first, ~first], axis=1)).all()


def test_cyclic_with_one_p() -> None:
    """Equation (4): three groups of two, p = .3; a client without images stays out."""
    found = of("cyclic", 4, [0.9, 0.1, 0.5, 0.0, 0.2, 0.2], groups=3, p=0.3)
    first, second, third = [0.3, 0.3, 0, 0, 0, 0], [0, 0, 0.3, 0, 0, 0], [0, 0, 0, 0, 0.3, 0.3]
    assert found.tolist() == [first, second, third, first]


def test_cyclic_with_the_clients_own_p() -> None:
    found = of("cyclic", 3, [0.9, 0.1, 0.5, 0.4], groups=2)
    assert found.tolist() == [[0.9, 0.1, 0, 0], [0, 0, 0.5, 0.4], [0.9, 0.1, 0, 0]]


def test_cyclic_with_p_zero_is_silent() -> None:
    """p = 0 is a value, not the absence of one."""
    assert not of("cyclic", 8, [0.5] * 4, p=0.0).any()


def test_uniform_sine_by_hand() -> None:
    """p = .5, gamma .3: f(0), f(5), f(15) = .7, 1, .4, for every client alike."""
    found = of("uniform_sine", 20, [0.1, 0.9, 0.0], p=0.5, gamma=0.3)[[0, 5, 15]]
    np.testing.assert_allclose(found, [[0.35, 0.35, 0], [0.5, 0.5, 0], [0.2, 0.2, 0]], rtol=1e-15)


def test_uniform_sine_is_the_sine_of_equal_base_rates() -> None:
    mine = of("uniform_sine", 60, [0.1, 0.9], p=0.4, gamma=0.2)
    np.testing.assert_array_equal(mine, of("sine", 60, [0.4, 0.4], gamma=0.2))


def sampled(rounds: int, base: list[float], number: int, seed: int = 3) -> NDArray[np.bool_]:
    dynamics, params = bind("dynamics", Choice("uniform_sampling", {"sampled": number}))
    probability = probabilities(dynamics, params, np.array(base), rounds)
    return participation(dynamics, params, probability, seed, "mnist5k")


def test_sampling_has_probability_s_over_m() -> None:
    assert of("uniform_sampling", 2, [0.1, 0.2, 0.9, 1.0], sampled=3).tolist() == [[0.75] * 4] * 2


def test_exactly_s_clients_are_sampled() -> None:
    for number in (1, 3, 8):
        assert (sampled(500, [0.5] * 8, number).sum(axis=1) == number).all()


def test_clients_without_images_are_not_sampled() -> None:
    """Two of four candidates: probability 2/4 each, 0 for the fifth client."""
    assert of("uniform_sampling", 1, [0.5, 0.0, 0.5, 0.5, 0.5], sampled=2).tolist() == [
        [0.5, 0, 0.5, 0.5, 0.5]
    ]
    active = sampled(300, [0.5, 0.0, 0.5, 0.5, 0.5], 2)
    assert not active[:, 1].any()
    assert (active.sum(axis=1) == 2).all()


def test_every_pair_is_sampled_equally_often() -> None:
    """2 of 5, 10 pairs, 20,000 rounds: 2,000 each, sd sqrt(20000 * .1 * .9) = 42.4; 5 sd are 212.

    Independent draws with p = 2/5 would give a pair in 16 % of the rounds, not 10 %.
    """
    active = sampled(20000, [0.5] * 5, 2).astype(int)
    pairs = active.T @ active
    assert abs(pairs[np.triu_indices(5, 1)] - 2000).max() < 212


def test_rounds_are_sampled_independently() -> None:
    """1 of 4: the same client twice running in a quarter of 20,000 rounds, sd sqrt(20000 * 3/16) = 61.2."""
    chosen = sampled(20001, [0.5] * 4, 1).argmax(axis=1)
    assert abs((chosen[1:] == chosen[:-1]).sum() - 5000) < 5 * 61.2


def test_a_larger_sample_contains_the_smaller() -> None:
    """Both take the smallest of the same uniforms."""
    small, large = sampled(200, [0.5] * 9, 2), sampled(200, [0.5] * 9, 5)
    assert (large | ~small).all()


def test_more_sampled_than_clients() -> None:
    message = r"'dynamics\.sampled': 4 clients cannot be sampled from the 2 that hold images; use at most 2"
    with pytest.raises(FedreproError, match=message):
        of("uniform_sampling", 5, [0.5, 0.0, 0.5], sampled=4)
