"""Dropout masks against a separate hash, and their statistics."""

import math

import numpy as np
import pytest
import torch

from fedrepro.core.dropout import LAYERS, Dropout, kept


def murmur(x: int) -> int:
    """The finaliser of MurmurHash3, on Python integers."""
    x ^= x >> 16
    x = x * 0x85EBCA6B % 2**32
    x ^= x >> 13
    x = x * 0xC2B2AE35 % 2**32
    return x ^ x >> 16


def key(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64).to(torch.int32)


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31), 123456789])
def test_masks_follow_the_hash(value: int) -> None:
    found = kept(key(value)[0], 3, 4, 5, 0.3)
    for row in range(4):
        for unit in range(5):
            hashed = murmur(murmur(3 * LAYERS + 5 * row + unit) ^ value % 2**32)
            assert bool(found[row, unit]) == ((hashed & 0x7FFFFFFF) >= round(0.3 * 2**31))


def test_hash_of_known_values() -> None:
    """fmix32(0) = 0, fmix32(1) = 0x514E28B7, the published values of the function."""
    assert murmur(0) == 0
    assert murmur(1) == 0x514E28B7


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_share_that_is_kept(rate: float) -> None:
    """2 million units: five standard errors are 5 sqrt(r (1 - r) / n)."""
    found = kept(torch.arange(100, dtype=torch.int32), 0, 100, 200, rate)
    assert found.shape == (100, 100, 200)
    error = 5 * math.sqrt(rate * (1 - rate) / found.numel())
    assert float(found.double().mean()) == pytest.approx(1 - rate, abs=error)


def test_masks_of_keys_layers_and_neighbours_are_uncorrelated() -> None:
    """Correlations of 100,000 pairs have standard error .003."""
    masks = [kept(key(value)[0], layer, 500, 200, 0.5) for value in (5, 6) for layer in (0, 1)]
    signs = [mask.double().flatten() * 2 - 1 for mask in masks]
    pairs = [(a, b) for i, a in enumerate(signs) for b in signs[i + 1 :]]
    pairs += [(signs[0][:-1], signs[0][1:]), (signs[0][:-200], signs[0][200:])]
    for a, b in pairs:
        assert abs(float((a * b).mean())) < 0.016


def test_more_rows_start_with_the_same_mask() -> None:
    """A client smaller than a batch has the masks of its rows, however many the others have."""
    assert torch.equal(kept(key(9)[0], 1, 3, 7, 0.4), kept(key(9)[0], 1, 8, 7, 0.4)[:3])


def test_kept_units_are_scaled_and_layers_are_counted() -> None:
    x, dropout = torch.ones(6, 50), Dropout(key(4)[0])
    first, second = dropout(x, 0.2), dropout(x, 0.2)
    assert torch.equal(first, kept(key(4)[0], 0, 6, 50, 0.2) * torch.tensor(1 / 0.8))
    assert torch.equal(second, kept(key(4)[0], 1, 6, 50, 0.2) * torch.tensor(1 / 0.8))
    assert not torch.equal(first, second)


def test_without_a_key_or_rate_nothing_is_dropped() -> None:
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 4)))
    assert Dropout()(x, 0.5) is x
    assert Dropout(key(1)[0])(x, 0.0) is x


def test_a_cohort_has_the_masks_of_its_clients() -> None:
    x = torch.ones(2, 3, 4)
    both = Dropout(key(7, 8))(x, 0.3)
    for row, value in enumerate((7, 8)):
        assert torch.equal(both[row], Dropout(key(value)[0])(x[row], 0.3))
