"""SVHN: colour photographs of house numbers, cropped to one digit.

The files call the digit 0 class 10. Normalised with the constants of the FedSWE authors' code.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.archives import Splits
from fedrepro.core.job import Context

SHAPE = (32, 32, 3)
CLASSES = 10
NAMES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
MEAN = (0.43768, 0.44377, 0.47280)
STD = (0.19803, 0.20102, 0.19704)


def load(files: Mapping[str, Path], context: Context) -> Splits:
    """Images (N, 32, 32, 3) and labels (N,) of both splits, in the order of the files."""
    return {split: _read(files[split]) for split in ("train", "test")}


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    from scipy.io import loadmat

    content = loadmat(path)
    labels = content["y"].ravel().astype(np.uint8)
    return np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2)), labels % 10
