"""A multilayer perceptron with ReLU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor

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


def forward(weights: Sequence[Tensor], images: Tensor) -> Tensor:
    """Logits (B, classes) of images (B, C, H, W)."""
    x = images.flatten(1)
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    for weight, bias in layers[:-1]:
        x = F.relu(F.linear(x, weight, bias))
    return F.linear(x, *layers[-1])
