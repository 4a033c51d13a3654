"""Holm's correction of p values for several tests (Holm, Scandinavian Journal of Statistics, 1979)."""

from collections.abc import Mapping, Sequence
from itertools import accumulate


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values, in the given order: the i-th smallest of K is multiplied by K - i + 1.

    An adjusted value is never below the ones before it, and at most 1.
    """
    count = len(p_values)
    order = sorted(range(count), key=lambda position: p_values[position])
    scaled = [min(1.0, (count - rank) * p_values[position]) for rank, position in enumerate(order)]
    adjusted = dict(zip(order, accumulate(scaled, max), strict=True))
    return [adjusted[position] for position in range(count)]


def holm_by_name(p_values: Mapping[str, float]) -> dict[str, float]:
    """`holm` of named p values."""
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))
