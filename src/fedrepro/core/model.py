"""Models as pure functions of one flat weight vector."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fedrepro.core import numerics, registry
from fedrepro.core.dropout import Dropout
from fedrepro.core.job import bind
from fedrepro.core.layers import FusedLayers, Layers
from fedrepro.core.rng import stream
from fedrepro.core.spec import TrainSpec

CLIENT = FusedLayers()


@dataclass(frozen=True)
class Weight:
    """One weight tensor: its shape and how it is initialised.

    ``kaiming``: normal with variance 2 / fan_in. ``uniform``: U(-b, b), b = fan_in ** -0.5, PyTorch's
    default for a linear layer, which the released code keeps for the last one. ``zeros``: biases.
    """

    shape: tuple[int, ...]
    init: Literal["kaiming", "uniform", "zeros"]
    fan_in: int


def linear(inputs: int, outputs: int, *, last: bool = False) -> list[Weight]:
    """Weight and bias of a linear layer."""
    bias: Literal["uniform", "zeros"] = "uniform" if last else "zeros"
    weight: Literal["uniform", "kaiming"] = "uniform" if last else "kaiming"
    return [Weight((outputs, inputs), weight, inputs), Weight((outputs,), bias, inputs)]


class Model:
    """A model plugin bound to a data set's shape.

    Parameters
    ----------
    plugin : module
        Provides ``weights(shape, classes, params)`` and
        ``forward(params, layers, weights, images, dropout)``.
    shape : (H, W, C)
        Shape of one image.
    classes : int
        Number of classes.
    params : object
        The plugin's ``Params``.
    compute : torch.dtype, optional
        What forward and backward passes are computed in; default: the weights' own.
    """

    def __init__(
        self,
        plugin: ModuleType,
        shape: tuple[int, int, int],
        classes: int,
        params: Any,
        compute: torch.dtype | None = None,
    ):
        self._forward, self._params, self._compute = plugin.forward, params, compute
        self._weights: Sequence[Weight] = plugin.weights(shape, classes, params)
        self._sizes = [math.prod(weight.shape) for weight in self._weights]

    @property
    def size(self) -> int:
        """Number of weights d."""
        return sum(self._sizes)

    @property
    def convolutional(self) -> bool:
        """Whether it has a convolution, which CPUs do best for one client at a time."""
        return any(len(weight.shape) == 4 for weight in self._weights)

    def initial(self, seed: int, dataset: str, dtype: torch.dtype) -> Tensor:
        """The initial flat weights, shape (d,): the same for every algorithm of a seed."""
        parts = []
        for index, weight in enumerate(self._weights):
            rng = stream(seed, "init", dataset, index)
            if weight.init == "kaiming":
                part = rng.standard_normal(weight.shape) * math.sqrt(2 / weight.fan_in)
            elif weight.init == "uniform":
                part = rng.uniform(-1, 1, weight.shape) / math.sqrt(weight.fan_in)
            else:
                part = np.zeros(weight.shape)
            parts.append(part.ravel())
        return torch.from_numpy(np.concatenate(parts)).to(dtype)

    def logits(
        self, flat: Tensor, images: Tensor, layers: Layers = CLIENT, dropout: Dropout | None = None
    ) -> Tensor:
        """Logits (n, classes) of images (n, C, H, W) under the flat weights (d,).

        With a cohort's layers all of them have a leading client axis: (K, d), (K, n, C, H, W) and
        (K, n, classes). Without ``dropout`` no unit is dropped.
        """
        compute = self._compute or flat.dtype
        views = [
            part.unflatten(-1, weight.shape)
            for part, weight in zip(flat.to(compute).split(self._sizes, -1), self._weights, strict=True)
        ]
        logits = self._forward(self._params, layers, views, images.to(compute), dropout or Dropout())
        return logits.to(flat.dtype)


def build_model(spec: TrainSpec) -> Model:
    """The model of a run, shaped for its data set."""
    dataset = registry.load("dataset", spec.dataset)
    plugin, params = bind("model", spec.model)
    return Model(plugin, dataset.SHAPE, dataset.CLASSES, params, numerics.COMPUTE.get(spec.numerics))
