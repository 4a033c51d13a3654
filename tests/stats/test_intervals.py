"""Intervals of a mean and their simulated coverage, Holm's correction, slopes."""

import numpy as np
import pytest

from fedrepro.stats.holm import holm, holm_by_name
from fedrepro.stats.intervals import interval, kendall, log_log_slope, slope, t_limits


def test_t_interval_by_hand() -> None:
    """1, 2, 3: mean 2, standard error 1 / sqrt(3), t(0.975, 2) = 4.302653."""
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5))
    assert t_limits(2.0, 3**-0.5, 3) == pytest.approx(interval([1.0, 2.0, 3.0]))


def test_one_value_has_no_interval() -> None:
    assert np.isnan(interval([1.0])).all()


def test_equal_values_have_an_interval_of_length_zero() -> None:
    assert interval([2.0] * 30) == (2.0, 2.0)


@pytest.mark.parametrize(("n", "samples", "confidence"), [(3, 2000, 0.9), (11, 2000, 0.95), (40, 300, 0.95)])
def test_coverage(n: int, samples: int, confidence: float) -> None:
    """The mean lies inside as often as promised; the bootstrap at n = 40 is a little short, by about 1 %."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(samples):
        low, high = interval(rng.normal(5, 2, n), confidence)
        inside += low <= 5 <= high
    error = (confidence * (1 - confidence) / samples) ** 0.5
    assert confidence - 3 * error - (0.015 if n >= 20 else 0) <= inside / samples <= confidence + 3 * error


def test_holm_by_hand() -> None:
    """Sorted .01, .02, .03 times 3, 2, 1 is .03, .04, .03; the last may not be below the one before it."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm_by_name({"a": 0.5, "b": 0.001}) == pytest.approx({"a": 0.5, "b": 0.002})


def test_holm_controls_the_chance_of_any_error() -> None:
    """Ten true nulls: the smallest adjusted p is at most 0.05 in 1 - 0.995^10, about 5 %, of all families."""
    rng = np.random.default_rng(2)
    wrong = np.mean([min(holm(list(rng.random(10)))) <= 0.05 for _ in range(3000)])
    assert wrong == pytest.approx(1 - 0.995**10, abs=0.012)


def test_trends() -> None:
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    assert kendall([1, 2, 3], [5, 5, 5]) == 0
    assert slope([0, 1, 2], [1, 3, 5]) == pytest.approx(2)
    assert log_log_slope([1, 10, 100], [5, 0.5, 0.05]) == pytest.approx(-1)
