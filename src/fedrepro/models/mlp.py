"""A multilayer perceptron with ReLU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.dropout import Dropout
from fedrepro.core.layers import Layers
from fedrepro.core.model import Weight, linear
from fedrepro.core.spec import Count


@dataclass(frozen=True)
class Params:
    """Widths of the ``hidden`` layers."""

    hidden: tuple[Count, ...] = (64,)


def weights(shape: tuple[int, int, int], classes: int, params: Params) -> list[Weight]:
    """Weight tensors for images (H, W, C)."""
    widths = (math.prod(shape), *params.hidden)
    out: list[Weight] = []
    for inputs, outputs in pairwise(widths):
        out += linear(inputs, outputs)
    return out + linear(widths[-1], classes, last=True)


def forward(
    params: Params, layers: Layers, weights: Sequence[Tensor], images: Tensor, dropout: Dropout
) -> Tensor:
    """Logits (..., n, classes) of images (..., n, C, H, W)."""
    x = layers.flatten(images)
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    for weight, bias in pairs[:-1]:
        x = F.relu(layers.linear(x, weight, bias))
    return layers.linear(x, *pairs[-1])
