"""Sign-flip tests: p values by hand, the smallest p, and the error rate over many samples."""

import numpy as np
import pytest

from fedrepro.stats.sign_flip import equivalent, not_worse, pairs_needed, sign_flip


def test_the_smallest_p_is_two_to_the_minus_n() -> None:
    """With all differences positive only the observed assignment has this mean."""
    for n in (1, 3, 5, 8, 11):
        assert sign_flip(np.arange(1.0, n + 1)) == pytest.approx(2.0**-n)


def test_p_by_hand() -> None:
    """3, 2, -1 sum to 4; of the eight sums 6, 4, 2, 0, 0, -2, -4, -6 two are at least 4."""
    assert sign_flip([3.0, 2.0, -1.0]) == pytest.approx(2 / 8)
    assert sign_flip([-3.0, -2.0, 1.0]) == pytest.approx(7 / 8)


def test_no_difference_is_no_evidence() -> None:
    assert sign_flip([0.0, 0.0, 0.0]) == 1.0


@pytest.mark.parametrize("bad", [[], [1.0, float("nan")], [[1.0], [2.0]]])
def test_no_finite_row_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="row of finite numbers"):
        sign_flip(bad)


def test_margins_shift_the_null() -> None:
    small = [-0.2, 0.1, -0.1, 0.2, 0.1]
    assert sign_flip(small) > 0.05
    assert not_worse(small, 0.5) == pytest.approx(2.0**-5)
    assert equivalent(small, 0.5) == pytest.approx(2.0**-5)
    assert equivalent(np.add(small, 1.0), 0.5) > 0.5


def test_above_twenty_pairs_the_random_flips_agree_with_the_exact_test() -> None:
    """22 equal differences of which 16 are positive: binomial, P(X >= 16 | 22, 1/2) = 0.02624."""
    values = np.repeat([1.0, -1.0], [16, 6])
    p = sign_flip(values)
    assert p == sign_flip(values)
    assert p == pytest.approx(0.02624, abs=0.002)


def test_error_rate_under_the_null_and_power() -> None:
    """At level 1/16 with six symmetric differences the test rejects in 1/16 of all samples (4 of 64 sums)."""
    rng = np.random.default_rng(0)
    null = [sign_flip(rng.standard_normal(6)) <= 1 / 16 for _ in range(1500)]
    assert np.mean(null) == pytest.approx(1 / 16, abs=3 * (1 / 16 * 15 / 16 / 1500) ** 0.5)
    shifted = [sign_flip(rng.standard_normal(6) + 2) <= 1 / 16 for _ in range(100)]
    assert np.mean(shifted) > 0.9


def test_pairs_that_one_of_several_claims_needs() -> None:
    assert [pairs_needed(k) for k in (1, 6, 12, 25, 51, 102)] == [5, 7, 8, 9, 10, 11]
