"""The papers' convolutional networks: C(3x3)-R-M blocks, then linear layers (FedSWE paper, Table 5).

Channels (32, 32) on 32 x 32 x 3 images, and

* hidden (128,): the SVHN network, d = 273,706,
* hidden (256, 64): the CIFAR-10 network, d = 551,786,
* hidden (512, 256), dropout 0.2: the CINIC-10 network, d = 1,193,130.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor

from fedrepro.core.dropout import Dropout
from fedrepro.core.layers import Layers
from fedrepro.core.model import Weight, linear
from fedrepro.core.spec import Count


@dataclass(frozen=True)
class Params:
    """Output ``channels`` of each convolution and widths of the ``hidden`` linear layers.

    ``dropout``: share of inputs that are dropped before every linear layer in training.
    """

    channels: tuple[Count, ...] = (32, 32)
    hidden: tuple[Count, ...] = (128,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0


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


def forward(
    params: Params, layers: Layers, weights: Sequence[Tensor], images: Tensor, dropout: Dropout
) -> Tensor:
    """Logits (..., n, classes) of images (..., n, C, H, W)."""
    x = images
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    for weight, bias in pairs[: len(params.channels)]:
        x = layers.pool_relu(layers.conv(x, weight), bias)
    x = layers.flatten(x)
    for weight, bias in pairs[len(params.channels) : -1]:
        x = F.relu(layers.linear(dropout(x, params.dropout), weight, bias))
    return layers.linear(dropout(x, params.dropout), *pairs[-1])
