"""CINIC-10: the classes of CIFAR-10, with images of CIFAR-10 and shrunken images of ImageNet.

The archive holds one PNG an image, ``<split>/<class>/<name>.png``; ``train`` and ``test`` are used, ``valid``
is not. Images are ordered by class, then by name. Normalised with the constants of the FedSWE authors' code.
"""

import io
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.archives import Splits, read_tar
from fedrepro.core.job import Context
from fedrepro.errors import FedreproError

SHAPE = (32, 32, 3)
CLASSES = 10
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN = (0.47890, 0.47228, 0.43047)
STD = (0.24206, 0.23828, 0.25875)

SPLITS = ("train", "test")
IMAGES = 90_000  # of a split
BATCH = 500  # images that a worker decodes at a time
WAITING = 4  # batches a worker that may wait, so that memory stays bounded

Key = tuple[int, str]  # label, file name: the order of the images
Batch = list[tuple[Key, bytes]]


def load(files: Mapping[str, Path], context: Context) -> Splits:
    """Images (N, 32, 32, 3) and labels (N,) of both splits; the PNGs are decoded by all threads."""
    keys: dict[str, list[Key]] = {split: [] for split in SPLITS}
    images = {split: np.empty((IMAGES, *SHAPE), dtype=np.uint8) for split in SPLITS}
    with _executor(context.threads) as executor:
        for split, names, decoded in _decoded(executor, files["archive"], context):
            start = len(keys[split])
            keys[split] += names
            if len(keys[split]) > IMAGES:
                raise FedreproError(f"{files['archive']} holds more than {IMAGES:,} images of {split}")
            images[split][start : len(keys[split])] = decoded
    return {split: _sorted(keys[split], images.pop(split)) for split in SPLITS}


def _executor(threads: int) -> Executor:
    if threads == 1:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(threads, mp_context=get_context("spawn"))


def _decoded(
    executor: Executor, archive: Path, context: Context
) -> Iterator[tuple[str, list[Key], NDArray[np.uint8]]]:
    waiting: deque[tuple[str, list[Key], Future[NDArray[np.uint8]]]] = deque()
    for split, batch in _batches(archive, context):
        names = [key for key, _ in batch]
        waiting.append((split, names, executor.submit(_decode, archive, batch)))
        if len(waiting) > WAITING * context.threads:
            split, names, images = waiting.popleft()
            yield split, names, images.result()
    for split, names, images in waiting:
        yield split, names, images.result()


def _batches(archive: Path, context: Context) -> Iterator[tuple[str, Batch]]:
    pending: dict[str, Batch] = {split: [] for split in SPLITS}
    for path, content in read_tar(archive, _is_image, context.observe):
        split, label, name = path.parts[-3:]
        pending[split].append(((NAMES.index(label), name), content))
        if len(pending[split]) == BATCH:
            yield split, pending[split]
            pending[split] = []
    yield from pending.items()


def _is_image(path: PurePosixPath) -> bool:
    if len(path.parts) < 3 or path.suffix != ".png":
        return False
    split, label, name = path.parts[-3:]
    return split in SPLITS and label in NAMES and not name.startswith(".")


def _decode(archive: Path, batch: Batch) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    images = np.empty((len(batch), *SHAPE), dtype=np.uint8)
    for row, ((label, name), content) in enumerate(batch):
        try:
            with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
                images[row] = np.asarray(image.convert("RGB"))
        except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
            raise FedreproError(
                f"{archive}: {NAMES[label]}/{name} is not a PNG of 32 x 32 ({error})"
            ) from error
    return images


def _sorted(keys: list[Key], images: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return images[order], np.array([keys[index][0] for index in order], dtype=np.uint8)
