"""The layers that models are written in, for one client's weights or for a whole cohort's at once.

Every implementation computes the same function; which is fastest depends on the device. A cohort's tensors
have a leading client axis K: images (K, n, C, H, W), features (K, n, f), weights (K, ...).

Max-pooling stands before the bias and the ReLU of a convolution: they commute, and the two then see a quarter
of the data. The bias's gradient over the whole image would cost as much as that of the first layer's weights.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

FUSED_CHANNELS = 16  # from here on the fused pooling kernel pays for loading numba


class Layers(Protocol):
    """What a model may use."""

    def conv(self, x: Tensor, weight: Tensor) -> Tensor:
        """3 x 3 convolution with padding 1, without its bias; weight (..., O, C, 3, 3)."""

    def pool_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """2 x 2 max-pooling, then the convolution's bias (..., O), then ReLU."""

    def flatten(self, x: Tensor) -> Tensor:
        """Features (..., n, C * H * W) of images."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Affine map of features (..., n, f); weight (..., o, f), bias (..., o)."""


class ClientLayers:
    """One client's weights, or one model's, in plain PyTorch."""

    def conv(self, x: Tensor, weight: Tensor) -> Tensor:
        """See `Layers`."""
        return F.conv2d(x, weight, padding=1)

    def pool_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """See `Layers`."""
        return F.relu(F.max_pool2d(x, 2) + bias[:, None, None])

    def flatten(self, x: Tensor) -> Tensor:
        """See `Layers`."""
        return x.flatten(1)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """See `Layers`."""
        return F.linear(x, weight, bias)


class FusedLayers(ClientLayers):
    """As `ClientLayers`, channels-last, several times faster on a CPU.

    Pooling, bias and ReLU of wide layers are one pass of a compiled kernel.
    """

    def pool_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """See `Layers`."""
        _, depth, height, width = x.shape
        plain = x.is_cuda or x.dtype == torch.bfloat16 or height % 2 or width % 2
        if plain or depth < FUSED_CHANNELS:
            return super().pool_relu(x.contiguous(memory_format=torch.channels_last), bias)
        from fedrepro.core.pooling import PoolReLU  # loads numba: a third of a second

        return PoolReLU.apply(x, bias)


class CohortLayers:
    """What the batched implementations share."""

    def pool_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """See `Layers`."""
        pooled = F.max_pool2d(_as_channels(x), 2) + bias.flatten()[:, None, None]
        return _by_client(F.relu(pooled), len(x))

    def flatten(self, x: Tensor) -> Tensor:
        """See `Layers`."""
        return x.flatten(2)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """See `Layers`."""
        return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


class GroupedLayers(CohortLayers):
    """A cohort's convolution as one grouped convolution, one group a client."""

    def conv(self, x: Tensor, weight: Tensor) -> Tensor:
        """See `Layers`."""
        stacked = F.conv2d(_as_channels(x), weight.flatten(0, 1), padding=1, groups=len(x))
        return _by_client(stacked, len(x))


class UnfoldedLayers(CohortLayers):
    """A cohort's convolution as one batched product with the unfolded images."""

    def conv(self, x: Tensor, weight: Tensor) -> Tensor:
        """See `Layers`."""
        clients, number, _, height, width = x.shape
        patches = F.unfold(x.flatten(0, 1), 3, padding=1)
        patches = patches.view(clients, number, *patches.shape[1:])
        maps = weight.flatten(2)[:, None] @ patches
        return maps.view(clients, number, -1, height, width)


class HybridLayers(GroupedLayers):
    """The first convolution, whose images have few channels, unfolded; the others grouped."""

    def conv(self, x: Tensor, weight: Tensor) -> Tensor:
        """See `Layers`."""
        if x.shape[2] > 4:
            return super().conv(x, weight)
        return UnfoldedLayers.conv(self, x, weight)  # type: ignore[arg-type]


def _as_channels(x: Tensor) -> Tensor:
    """Images (K, n, C, H, W) with the clients among the channels: (n, K * C, H, W), channels last."""
    clients, number, depth, height, width = x.shape
    stacked = x.transpose(0, 1).reshape(number, clients * depth, height, width)
    return stacked.contiguous(memory_format=torch.channels_last)


def _by_client(x: Tensor, clients: int) -> Tensor:
    """The inverse of `_as_channels`, without a copy."""
    number, channels, height, width = x.shape
    return x.view(number, clients, channels // clients, height, width).transpose(0, 1)
