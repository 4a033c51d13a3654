"""Max-pooling, bias and ReLU in one pass over channels-last images, for the CPU.

Equal to ``relu(max_pool2d(x, 2) + bias)`` bit for bit, and in the gradient of x: of equal pixels the first in
row order wins, and NaN passes through. The pass back writes every pixel once, without a buffer of zeros.
"""

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_NONE = np.uint8(4)  # the ReLU is off: no pixel of the window gets a gradient


@numba.njit(cache=True, nogil=True)
def _later(value: float, best: float) -> bool:
    return value > best or value != value


@numba.njit(cache=True, nogil=True)
def _forward(x: NDArray[Any], bias: NDArray[Any], pooled: NDArray[Any], winner: NDArray[np.uint8]) -> None:
    for n in range(pooled.shape[0]):
        for i in range(pooled.shape[1]):
            for j in range(pooled.shape[2]):
                for c in range(pooled.shape[3]):
                    best, where = x[n, 2 * i, 2 * j, c], np.uint8(0)
                    value = x[n, 2 * i, 2 * j + 1, c]
                    if _later(value, best):
                        best, where = value, np.uint8(1)
                    value = x[n, 2 * i + 1, 2 * j, c]
                    if _later(value, best):
                        best, where = value, np.uint8(2)
                    value = x[n, 2 * i + 1, 2 * j + 1, c]
                    if _later(value, best):
                        best, where = value, np.uint8(3)
                    best += bias[c]
                    off = best <= 0
                    pooled[n, i, j, c] = 0 if off else best
                    winner[n, i, j, c] = _NONE if off else where


@numba.njit(cache=True, nogil=True)
def _backward(
    gradient: NDArray[Any], winner: NDArray[np.uint8], x: NDArray[Any], bias: NDArray[np.float64]
) -> None:
    zero = x.dtype.type(0)
    of_image = np.empty(len(bias), dtype=x.dtype)
    for n in range(gradient.shape[0]):
        of_image[:] = 0
        for i in range(gradient.shape[1]):
            for j in range(gradient.shape[2]):
                for c in range(gradient.shape[3]):
                    value, where = gradient[n, i, j, c], winner[n, i, j, c]
                    of_image[c] += zero if where == _NONE else value
                    x[n, 2 * i, 2 * j, c] = value if where == 0 else zero
                    x[n, 2 * i, 2 * j + 1, c] = value if where == 1 else zero
                    x[n, 2 * i + 1, 2 * j, c] = value if where == 2 else zero
                    x[n, 2 * i + 1, 2 * j + 1, c] = value if where == 3 else zero
        bias += of_image


class PoolReLU(torch.autograd.Function):
    """``relu(max_pool2d(x, 2) + bias)`` of float32 or float64 images (n, C, H, W), H and W even."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, bias: Tensor) -> Tensor:
        """Pool, and remember which pixel of each window won."""
        x = _last(images)
        number, height, width, depth = x.shape
        pooled = np.empty((number, height // 2, width // 2, depth), dtype=x.dtype)
        ctx.winner = np.empty(pooled.shape, dtype=np.uint8)
        _forward(x, bias.detach().numpy(), pooled, ctx.winner)
        return torch.from_numpy(pooled).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Hand each gradient to the pixel that won; the bias gets the sum of those that pass the ReLU."""
        gradient = _last(gradients[0])
        number, height, width, depth = gradient.shape
        x = np.empty((number, 2 * height, 2 * width, depth), dtype=gradient.dtype)
        bias = np.zeros(depth)
        _backward(gradient, ctx.winner, x, bias)
        return torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(bias).to(gradients[0].dtype)


def _last(images: Tensor) -> NDArray[Any]:
    return images.detach().permute(0, 2, 3, 1).contiguous().numpy()
