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
    """Normalised images (N, C, H, W), channels last in memory, and labels (N,) of one split."""

    images: Tensor
    labels: Tensor


def pack(images: NDArray[np.uint8], labels: NDArray[np.integer]) -> NDArray[np.void]:
    """The prepared form of a split: records of an (H, W, C) uint8 ``image`` and a uint8 ``label``."""
    packed = np.empty(len(images), dtype=[("image", np.uint8, images.shape[1:]), ("label", np.uint8)])
    packed["image"], packed["label"] = images, labels
    return packed


def open_split(path: Path) -> NDArray[np.void]:
    """Map a prepared split into memory without reading it."""
    try:
        return np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise FedreproError(
            f"{path} is not a readable prepared split ({error}); delete it and run snakemake again"
        ) from error


def tensors(records: NDArray[np.void], dataset: ModuleType, dtype: torch.dtype) -> Split:
    """Normalise a split with the data set's channel means and standard deviations (of pixels in [0, 1])."""
    images = torch.from_numpy(np.ascontiguousarray(records["image"])).to(dtype).div_(255)
    images.sub_(torch.tensor(dataset.MEAN, dtype=dtype)).div_(torch.tensor(dataset.STD, dtype=dtype))
    labels = torch.from_numpy(records["label"].astype(np.int64))
    return Split(images.permute(0, 3, 1, 2), labels)
