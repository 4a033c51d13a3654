"""CIFAR-10: small colour photographs of ten kinds of animals and vehicles.

Normalised with the constants of the FedSWE authors' code.
"""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.archives import Splits, read_tar
from fedrepro.core.job import Context
from fedrepro.errors import FedreproError

SHAPE = (32, 32, 3)
CLASSES = 10
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)

BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}


def load(files: Mapping[str, Path], context: Context) -> Splits:
    """Images (N, 32, 32, 3) and labels (N,) of both splits, in the order of the batches."""
    wanted = [name for names in BATCHES.values() for name in names]
    found = {
        path.name: _batch(files["archive"], content)
        for path, content in read_tar(files["archive"], lambda path: path.name in wanted)
    }
    if missing := sorted(set(wanted) - set(found)):
        raise FedreproError(f"{files['archive']} lacks {', '.join(missing)}")
    return {
        split: (
            np.concatenate([found[name][0] for name in names]),
            np.concatenate([found[name][1] for name in names]),
        )
        for split, names in BATCHES.items()
    }


def _batch(archive: Path, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A batch holds one row an image: 1,024 red values, then green, then blue, row by row."""
    try:
        batch: dict[bytes, Any] = _Arrays(io.BytesIO(content), encoding="bytes").load()
        pixels, labels = batch[b"data"], batch[b"labels"]
    except (pickle.UnpicklingError, EOFError, KeyError) as error:
        raise FedreproError(f"{archive} holds a batch that cannot be read ({error})") from error
    images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.array(labels, dtype=np.uint8)


class _Arrays(pickle.Unpickler):
    """Reads NumPy arrays and plain values only, so that an archive cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core", "numpy._core")  # its name since NumPy 2
        if f"{module}.{name}" not in ("numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype"):
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return super().find_class(module, name)
