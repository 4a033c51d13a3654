"""The papers' convolutional networks: C(3x3)-R-M blocks, then linear layers (FedSWE paper, Table 5).

Channels (32, 32) and hidden (128,) on 32 x 32 x 3 images is the SVHN network, d = 273,706; hidden
(256, 64) is the CIFAR-10 network, d = 551,786.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.model import Weight, linear
from fedrepro.core.spec import Count


@dataclass(frozen=True)
class Params:
    """Output ``channels`` of each 3 x 3 convolution, and widths of the ``hidden`` linear layers."""

    channels: tuple[Count, ...] = (32, 32)
    hidden: tuple[Count, ...] = (128,)


def weights(shape: tuple[int, int, int], classes: int, params: Params) -> list[Weight]:
    """Weight tensors for images (H, W, C): two per convolution, two per linear layer."""
    height, width, depth = shape
    out: list[Weight] = []
    for channels in params.channels:
        out += [Weight((channels, depth, 3, 3), "kaiming", 9 * depth)]
        out += [Weight((channels,), "zeros", 9 * depth)]
        height, width, depth = height // 2, width // 2, channels
    inputs = height * width * depth
    for hidden in params.hidden:
        out += linear(inputs, hidden)
        inputs = hidden
    return out + linear(inputs, classes, last=True)


def forward(weights: Sequence[Tensor], images: Tensor) -> Tensor:
    """Logits (B, classes) of images (B, C, H, W).

    Max-pooling stands before the ReLU: the two commute, and the ReLU then sees a quarter of the data.
    It runs channels-last, which is several times faster on a CPU.
    """
    x = images
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    for weight, bias in layers[:-1]:
        if weight.dim() == 4:
            x = F.conv2d(x, weight, bias, padding=1)
            x = F.relu(F.max_pool2d(x.contiguous(memory_format=torch.channels_last), 2))
        else:
            x = F.relu(F.linear(x.flatten(1), weight, bias))
    return F.linear(x.flatten(1), *layers[-1])
