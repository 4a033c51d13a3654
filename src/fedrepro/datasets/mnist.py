"""MNIST: handwritten digits, grey, 28 x 28.

Normalised with the mean and standard deviation of the training pixels, as PyTorch's MNIST example does.
"""

from collections.abc import Mapping
from pathlib import Path

from fedrepro.core.archives import Splits, read_idx_splits
from fedrepro.core.job import Context

SHAPE = (28, 28, 1)
CLASSES = 10
NAMES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
MEAN = (0.1307,)
STD = (0.3081,)


def load(files: Mapping[str, Path], context: Context) -> Splits:
    """Images (N, 28, 28, 1) and labels (N,) of both splits, in the order of the files."""
    return read_idx_splits(files)
