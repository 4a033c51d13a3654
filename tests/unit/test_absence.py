"""Moments of t - tau_i(t), the windows of Assumption 1, and Lemma 7 of the FedSWE paper."""

import itertools

import numpy as np
import pytest

from fedrepro.core.absence import absences, lemma_7, lowest_average, moments, smallest_window


def test_absences_by_hand() -> None:
    """tau(0) = -1; active in rounds 1 and 2."""
    active = np.array([[False], [True], [True], [False], [False]])
    assert absences(active)[:, 0].tolist() == [1, 2, 1, 1, 2]


def test_moments_by_hand() -> None:
    """p = 1/2: D_1 is 1 or 2, D_2 is 1, 2, 3 with 1/2, 1/4, 1/4: means 3/2, 7/4, squares 5/2, 15/4."""
    first, second = moments(np.full((3, 1), 0.5))
    assert first[:, 0].tolist() == [1, 1.5, 1.75]
    assert second[:, 0].tolist() == [1, 2.5, 3.75]


def test_moments_tend_to_the_geometric_ones() -> None:
    """Mean 1/p, mean square (2 - p)/p^2: both below 1 + 1/p and 2/p^2 (Remark 8)."""
    first, second = moments(np.full((4000, 1), 0.02))
    assert first[-1, 0] == pytest.approx(50) and second[-1, 0] == pytest.approx(1.98 / 0.0004)
    assert lemma_7(1, 0.02) == pytest.approx((51, 2 / 0.0004))
    assert lemma_7(1, 1.0) == (2.0, 2.0)


def test_moments_against_every_history() -> None:
    """Exhaustive: all 2^6 histories of a client whose probability changes."""
    p = np.array([0.3, 0.9, 0.0, 0.2, 1.0, 0.6])
    expected = np.zeros((2, len(p)))
    for history in itertools.product((False, True), repeat=len(p)):
        active = np.array(history)
        away = absences(active[:, None])[:, 0]
        expected += np.where(active, p, 1 - p).prod() * np.stack([away, away**2])
    found = moments(p[:, None])
    np.testing.assert_allclose(np.stack([part[:, 0] for part in found]), expected, atol=1e-12)


def test_windows_by_hand() -> None:
    """Alternate rounds: single rounds have average 0, pairs 1/2."""
    probability = np.array([[1.0], [0.0]] * 6)
    assert lowest_average(probability, 1).item() == 0
    assert lowest_average(probability, 2).item() == 0.5
    assert lowest_average(probability, 5).item() == pytest.approx(0.4)
    assert smallest_window(probability[:, 0], 0.5) == 2
    assert smallest_window(probability[:, 0], 0.3) == 2


def test_lemma_7_fails_inside_a_window() -> None:
    """Active in the first two of seven rounds, then in the last two of the next seven, and so on.

    Every window has average 2/7, and the ten rounds 2 to 11 are silent, so P_delta = 7: they hold a whole
    window of every shorter P but 6, where it is rounds 6 to 11. In round 12, t - tau = 11, above
    P + 1/delta = 10.5, and 121 is above ((6 * 2/7 + 1)^2 + 6 * 4/49 + 1) * 49/4 = 108.5. At the start of a
    window, t = 7, it is 6. With what has passed of the window, at most P - 1 rounds, added to (15) it holds.
    """
    pattern = np.tile([1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1], 7).astype(float)
    assert smallest_window(pattern, 2 / 7) == 7
    first, second = moments(pattern[:, None])
    assert first.max() == 11 and second.max() == 121 and first[::7].max() == 6
    assert lemma_7(7, 2 / 7) == pytest.approx((10.5, 108.5))
    assert first.max() < 2 * 7 - 1 + 7 / 2


def test_lemma_7_holds_at_the_start_of_every_window() -> None:
    """Random 0/1 patterns with two active rounds in each window of six, delta = 1/3."""
    rng = np.random.Generator(np.random.Philox(key=9))
    for _ in range(50):
        windows = np.zeros((20, 6))
        for window in windows:
            window[rng.choice(6, 2, replace=False)] = 1
        first, second = moments(windows.reshape(-1, 1))
        one, two = lemma_7(6, 1 / 3)
        assert first[::6].max() <= one and second[::6].max() <= two
