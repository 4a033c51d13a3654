"""Prepared data sets: one memory-mapped file per split, and the tensors a run needs."""

from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Split(NamedTuple):
    """One split of a data set, on one device.

    ``images``: uint8 (N, H, W, C), on the CPU a map of the prepared file, which concurrent runs share;
    ``labels``: int64 (N,); ``scale``, ``shift``: (C,), normalised pixels are ``image * scale + shift``.
    """

    images: Tensor
    labels: Tensor
    scale: Tensor
    shift: Tensor

    def normalise(self, images: Tensor) -> Tensor:
        """Floating-point images (n, C, H, W), channels last in memory, of uint8 images (n, H, W, C)."""
        pixels = torch.addcmul(self.shift, images.to(self.scale.dtype), self.scale)
        return pixels.permute(0, 3, 1, 2)

    def batch(self, indices: Tensor) -> Tensor:
        """Normalised images (n, C, H, W) of the given indices (n,)."""
        return self.normalise(self.images.index_select(0, indices))

    def to(self, device: str) -> "Split":
        """The split on another device."""
        return Split(*(part.to(device) for part in self))


def tensors(records: NDArray[np.void], dataset: ModuleType, dtype: torch.dtype) -> Split:
    """A split, to be normalised with the data set's channel means and deviations (of pixels in [0, 1])."""
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (dataset.MEAN, dataset.STD))
    labels = torch.from_numpy(records["label"].astype(np.int64))
    scale, shift = (1 / (255 * std)).to(dtype), (-mean / std).to(dtype)
    return Split(torch.from_numpy(np.asarray(records["image"])), labels, scale, shift)
