"""Mixing matrices, the spectral norm rho_k and Lemma 11 of the FedSWE paper."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrepro.core.mixing import (
    active_sets,
    expected_square,
    expected_square_of_groups,
    group_windows,
    log_gap,
    mixing,
    sampled_norm,
    second_eigenvalue,
)

Floats = NDArray[np.float64]


def written_out(active: list[bool], k: int) -> Floats:
    """Equation (9), entry by entry."""
    everyone = [*active, *[True] * k]
    matrix = np.zeros((len(everyone),) * 2)
    for i, one in enumerate(everyone):
        for j, two in enumerate(everyone):
            if one and two:
                matrix[i, j] = 1 / (sum(active) + k)
            elif i == j:
                matrix[i, j] = 1
    return matrix


def brute_force(windows: Floats, k: int, *, transposed: bool = False) -> float:
    """lambda_2 of the mean of V^T V over every sequence of active sets, in the full (m + k) system."""
    rounds = [list(zip(*active_sets(row), strict=True)) for row in windows]
    size = windows.shape[1] + k
    total = np.zeros((size, size))

    def walk(t: int, product: Floats, weight: float) -> None:
        nonlocal total
        if t == len(rounds):
            total = total + weight * (product @ product.T if transposed else product.T @ product)
            return
        for active, chance in rounds[t]:
            walk(t + 1, product @ written_out(list(active), k), weight * chance)

    walk(0, np.eye(size), 1.0)
    return float(np.linalg.eigvalsh(total)[-2])


def rho(windows: Floats, k: float) -> float:
    return second_eigenvalue(expected_square(windows, k))


def test_w_is_equation_9() -> None:
    """Active 0 and 2 of 3, k = 2: quarters among 0, 2, 3, 4, and client 1 keeps its model."""
    found = mixing(np.array([True, False, True]), np.ones(2))
    assert (found == written_out([True, False, True], 2)).all()
    assert found[0].tolist() == [0.25, 0, 0.25, 0.25, 0.25] and found[1].tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("k", [0, 1, 3])
def test_w_is_a_symmetric_projection_that_keeps_means(k: int) -> None:
    active, _ = active_sets(np.full(4, 0.5))
    w = mixing(active, np.ones(k))
    np.testing.assert_allclose(w @ w, w, atol=1e-14)
    np.testing.assert_allclose(w.sum(1), 1, atol=1e-14)
    np.testing.assert_allclose(w, w.swapaxes(1, 2))
    assert w.min() >= 0


def test_nobody_active_and_no_virtual_client_leaves_all_as_it_is() -> None:
    assert (mixing(np.zeros(3, dtype=bool), np.ones(0)) == np.eye(3)).all()
    assert (mixing(np.zeros(3, dtype=bool), np.zeros(1))[:3, :3] == np.eye(3)).all()


def test_active_sets_by_hand() -> None:
    """One certain, one impossible, two of 1/4 and 1/2: four sets, 3/8, 1/8, 3/8, 1/8."""
    active, weight = active_sets(np.array([1.0, 0.25, 0.0, 0.5]))
    assert active.tolist() == [[True, a, False, b] for b in (False, True) for a in (False, True)]
    assert weight.tolist() == [3 / 8, 1 / 8, 3 / 8, 1 / 8]


def test_two_clients_by_hand() -> None:
    """m = 2, k = 1, p = 1/2; W is a projection, so that an eigenvector v has eigenvalue E|W v|^2 / |v|^2.

    v = (1, -1, 0): nobody active (1/4) leaves it, 1; one client (1/2) gives (1/2, -1, 1/2), 3/4; both (1/4)
    give 0. Sum 1/4 + 3/8 = 5/8. v = (1, 1, -2): 1; (-1/2, 1, -1/2), 1/4; 0. Sum 1/4 + 1/8 = 3/8.
    """
    assert rho(np.full((1, 2), 0.5), 1) == pytest.approx(5 / 8, abs=1e-14)
    values = np.linalg.eigvalsh(expected_square(np.full((1, 2), 0.5), 1))
    assert values == pytest.approx([3 / 8, 5 / 8, 1], abs=1e-14)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize(
    "windows",
    [
        np.array([[0.3, 0.3, 0.3]]),
        np.array([[0.2, 0.9]]),
        np.array([[0.7, 0.0], [0.0, 0.4]]),
        np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 0.3], [0.1, 0.0, 1.0]]),
    ],
)
def test_exact_norm_against_every_sequence_in_the_full_system(windows: Floats, k: int) -> None:
    assert rho(windows, k) == pytest.approx(brute_force(windows, k), abs=1e-12)
    reverse = rho(windows[::-1], k)
    assert reverse == pytest.approx(brute_force(windows, k, transposed=True), abs=1e-12)


def test_both_readings_of_the_square_differ() -> None:
    """m = 2, k = 1; client 0 in round 0, client 1 in round 1 with probability q.

    ``V V^T = W_0 E[W_1] W_0``: on the range of W_0, with basis (x_0 + v)/sqrt(2) and x_1, W_1 is
    [[3/4, 1/sqrt(8)], [1/sqrt(8), 1/2]] of eigenvalues 1 and 1/4, so that lambda_2 = 1 - 3q/4.
    ``V^T V = q W_1 W_0 W_1 + (1 - q) W_0``: orthogonal to 1, in two dimensions, W_1 W_0 W_1 = a a^T / 4 and
    W_0 = b b^T, with cos^2 = 1/4 between a and b. With q = 1/2: trace 5/8, determinant 3/64, and
    lambda_2 = (5/8 + sqrt(25/64 - 12/64)) / 2 = (5 + sqrt(13)) / 16. Lemma 5 is about V V^T.
    """
    windows = np.array([[1.0, 0.0], [0.0, 0.5]])
    assert rho(windows, 1) == pytest.approx((5 + math.sqrt(13)) / 16, abs=1e-12)
    assert rho(windows[::-1], 1) == pytest.approx(5 / 8, abs=1e-12)
    assert rho(np.array([[1.0, 0.0], [0.0, 1.0]]), 1) == pytest.approx(1 / 4, abs=1e-12)


def test_lemma_5_needs_the_product_with_its_transpose_on_the_right() -> None:
    """The worst B has one row, the second eigenvector of E[V V^T]: its contraction exceeds V^T V's norm."""
    windows, j = np.array([[1.0, 0.0], [0.0, 0.5]]), np.full((3, 3), 1 / 3)
    first = written_out([True, False], 1)
    products = [(0.5, first @ written_out([False, True], 1)), (0.5, first)]
    square = sum(weight * v @ v.T for weight, v in products)
    b = np.linalg.eigh(square)[1][:, -2]
    left = sum(weight * float(((b @ (v - j)) ** 2).sum()) for weight, v in products)
    right = float(((b @ (np.eye(3) - j)) ** 2).sum())
    assert left / right == pytest.approx(5 / 8)
    assert left > rho(windows, 1) * right + 0.05


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1.0])
def test_norm_tends_to_one_minus_p(p: float) -> None:
    """For k to infinity an active client takes the virtual ones' model, another keeps its own."""
    assert rho(np.full((1, 6), p), 1e9) == pytest.approx(1 - p, abs=1e-8)


def test_norm_of_two_groups_for_large_k() -> None:
    """A client of a group with p stays apart from the rest if it misses all of its 3 rounds."""
    assert rho(group_windows((0.2, 0.7), 3, 4), 1e9) == pytest.approx(0.8**3, abs=1e-8)


def test_groups_in_turn_do_not_mix_without_interpolation() -> None:
    """Section 6.5.2; with P = 1 they do, Section 6.5.3."""
    assert rho(group_windows((0.5, 0.5), 3, 4), 0) == pytest.approx(1, abs=1e-12)
    assert rho(np.full((1, 4), 0.1), 0) < 0.99


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_norm_falls_in_k_and_in_p(p: float) -> None:
    values = [rho(np.full((1, 5), p), k) for k in (0.5, 1, 2, 5, 20, 100)]
    assert (np.diff(values) < 0).all()
    assert rho(np.full((1, 5), p + 0.05), 3) < rho(np.full((1, 5), p), 3)


def test_group_windows_by_hand() -> None:
    assert group_windows((0.2, 0.7), 2, 4).tolist() == [[0.2, 0.2, 0, 0]] * 2 + [[0, 0, 0.7, 0.7]] * 2
    assert group_windows((0.3,), 1, 2).tolist() == [[0.3, 0.3]]


def test_groups_of_clients_that_are_alike() -> None:
    """The sum over numbers of active clients is the sum over all sets, also where two groups are unsure."""
    for rows in (group_windows((0.4, 0.8), 2, 2), np.array([[0.3, 0.9], [1.0, 0.5], [0.0, 0.7]])):
        every = np.repeat(rows, 3, axis=1)  # six clients
        for k in (0.0, 1.0, 3.5):
            found = expected_square_of_groups(rows, 3, k)
            np.testing.assert_allclose(found, expected_square(every, k), rtol=0, atol=1e-14)


def test_a_hundred_alike_clients_by_hand() -> None:
    """P = 1 and k = 0: W is J/n on n active clients and 1 elsewhere, so that W^2 = W, and off the mean the

    expectation keeps E[1 - (n - 1)^+ / (m - 1)] with n binomial; E(n - 1)^+ = m p - 1 + (1 - p)^m. For
    m = 100 and p = 1/2 that is 1 - 49 / 99 = 50 / 99, up to 2^-100.
    """
    square = expected_square_of_groups(np.array([[0.5]]), 100, 0.0)
    values = np.linalg.eigvalsh(square[:-1, :-1])
    assert values[-1] == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(values[:-1], 50 / 99, rtol=0, atol=1e-12)


def test_lemma_11_as_printed_fails_and_repaired_holds() -> None:
    """m = 2, k = 1, delta = 1: [4 + 1 + 4]^2 / 8 = 81/8, over 9 as printed: bound 1 - 9/8 = -1/8 < 0 <= rho.

    Over 81, the power that the proof's h(k) has: bound 7/8. Here rho = 0.
    """
    assert 1 - 10 ** log_gap(2, 1, 1.0, 2) == pytest.approx(-1 / 8)
    assert 1 - 10 ** log_gap(2, 1, 1.0, 4) == pytest.approx(7 / 8)
    assert rho(np.full((1, 2), 1.0), 1) == pytest.approx(0, abs=1e-14)
    for m in (1, 2, 6):
        for k in (1, 4, 30):
            for p in (0.05, 0.5, 1.0):
                assert rho(np.full((1, m), p), k) <= 1 - 10 ** log_gap(m, k, p, 4)


def test_lemma_11_for_long_periods_is_vacuous() -> None:
    """m = k = 10, delta = 1/4, P = 20: [25 + 300]^2 / 16 / 8 = 825.2 over 20^82."""
    expected = math.log10(325**2 / 16 / 8) - 82 * math.log10(20)
    assert log_gap(10, 10, 0.25, 82) == pytest.approx(expected)
    assert 1 - 10**expected == 1.0


def test_drawn_norm_agrees_with_the_exact_one() -> None:
    """Within five standard errors; the same sets twice give the exact norm of their mean."""
    windows = group_windows((0.4, 0.8), 2, 6)
    active = np.random.Generator(np.random.Philox(key=5)).random((4000, *windows.shape)) < windows
    found, error = sampled_norm(active, 3)
    assert abs(found - rho(windows, 3)) < 5 * error < 0.05
    every, weight = active_sets(np.full(3, 0.5))
    assert (weight == 1 / 8).all()
    assert sampled_norm(every[:, None], 2)[0] == pytest.approx(rho(np.full((1, 3), 0.5), 2), abs=1e-12)
