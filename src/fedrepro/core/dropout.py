"""Dropout whose masks are a function of a key: the same on every device, in any order.

Unit j of minibatch row b is kept or dropped by a 32-bit hash of (key, layer, b, j). The key belongs to one
(seed, data set, round, client, local step).
"""

from functools import lru_cache

import torch
from torch import Tensor

LAYERS = 2**24  # counters set apart for a layer: rows times units of a minibatch must stay below


def _mixed(x: Tensor) -> Tensor:
    """The 32-bit finaliser of MurmurHash3 on int32, in place; shifts are made logical by masks."""
    x ^= (x >> 16) & 0xFFFF
    x *= -0x7A143595  # 0x85EBCA6B
    x ^= (x >> 13) & 0x7FFFF
    x *= -0x3D4D51CB  # 0xC2B2AE35
    x ^= (x >> 16) & 0xFFFF
    return x


@lru_cache(maxsize=32)
def _counters(layer: int, rows: int, units: int, device: torch.device) -> Tensor:
    first = LAYERS * layer
    numbers = torch.arange(first, first + rows * units, dtype=torch.int32, device=device)
    return _mixed(numbers.view(rows, units))


def kept(key: Tensor, layer: int, rows: int, units: int, rate: float) -> Tensor:
    """Which units are kept, bool (..., rows, units), each with probability ``1 - rate``.

    Parameters
    ----------
    key : int32 (...)
        One key per client, of any shape.
    layer, rows, units : int
        Which dropout of the network, and the shape of its input.
    rate : float
        Share that is dropped, in [0, 1).
    """
    hashed = _mixed(key[..., None, None] ^ _counters(layer, rows, units, key.device))
    return (hashed & 0x7FFFFFFF) >= round(rate * 2**31)


class Dropout:
    """The dropouts of one forward pass, numbered in the order they are met; the identity without a key."""

    def __init__(self, key: Tensor | None = None):
        self._key, self._layer = key, 0

    def __call__(self, x: Tensor, rate: float) -> Tensor:
        """Drop units of ``x`` (..., rows, units) and scale the others by ``1 / (1 - rate)``."""
        if self._key is None or not rate:
            return x
        rows, units = x.shape[-2:]
        keep = kept(self._key, self._layer, rows, units, rate)
        self._layer += 1
        return x * (keep.to(x.dtype) / (1 - rate))
