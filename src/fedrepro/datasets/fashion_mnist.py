"""Fashion-MNIST: articles of clothing, grey, 28 x 28, in the format of MNIST.

Normalised with the mean and standard deviation of the training pixels, rounded as commonly published.
"""

from collections.abc import Mapping
from pathlib import Path

from fedrepro.core.archives import Splits, read_idx_splits
from fedrepro.core.job import Context

SHAPE = (28, 28, 1)
CLASSES = 10
NAMES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
MEAN = (0.2860,)
STD = (0.3530,)


def load(files: Mapping[str, Path], context: Context) -> Splits:
    """Images (N, 28, 28, 1) and labels (N,) of both splits, in the order of the files."""
    return read_idx_splits(files)
