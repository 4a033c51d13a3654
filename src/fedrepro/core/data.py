"""Prepared data sets: one memory-mapped file per split, and the tensors a run needs."""

from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.errors import FedreproError


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


def pack(images: NDArray[np.uint8], labels: NDArray[np.integer]) -> NDArray[np.void]:
    """The prepared form of a split: records of an (H, W, C) uint8 ``image`` and a uint8 ``label``."""
    packed = np.empty(len(images), dtype=[("image", np.uint8, images.shape[1:]), ("label", np.uint8)])
    packed["image"], packed["label"] = images, labels
    return packed


def open_split(path: Path) -> NDArray[np.void]:
    """Map a prepared split into memory without reading it; changes would stay in memory."""
    try:
        return np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError) as error:
        raise FedreproError(
            f"{path} is not a readable prepared split ({error}); delete it and run snakemake again"
        ) from error


def tensors(records: NDArray[np.void], dataset: ModuleType, dtype: torch.dtype) -> Split:
    """A split, to be normalised with the data set's channel means and deviations (of pixels in [0, 1])."""
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (dataset.MEAN, dataset.STD))
    labels = torch.from_numpy(records["label"].astype(np.int64))
    scale, shift = (1 / (255 * std)).to(dtype), (-mean / std).to(dtype)
    return Split(torch.from_numpy(np.asarray(records["image"])), labels, scale, shift)
