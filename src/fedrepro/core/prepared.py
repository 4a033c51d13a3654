"""Prepared data sets: one memory-mappable file per split."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrepro.errors import FedreproError


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
