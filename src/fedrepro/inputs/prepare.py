"""A data set in its prepared form: one memory-mappable file per split."""

import hashlib
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedrepro.core import registry
from fedrepro.core.archives import Splits
from fedrepro.core.job import Artifact, Context, Inputs, Result
from fedrepro.core.prepared import pack
from fedrepro.core.spec import PrepareSpec
from fedrepro.errors import FedreproError

SPLITS = ("train", "test")
Images = NDArray[np.uint8]


def run(spec: PrepareSpec, inputs: Inputs, context: Context) -> Result:
    """Load, check against the data set's card, and pack the splits ``train`` and ``test``."""
    dataset = registry.load("dataset", spec.dataset)
    splits: Splits = dataset.load(inputs, context)
    if spec.sha256 is not None:
        _check_hash(spec, splits)
    for split, counts in spec.counts.items():
        _check_counts(f"data set {spec.dataset}, split {split}", splits[split], dataset.SHAPE, counts)
    return Result({name: _packed(*splits.pop(name)) for name in SPLITS})


def _check_hash(spec: PrepareSpec, splits: Splits) -> None:
    found = hashlib.sha256()
    for name in SPLITS:
        for array in splits[name]:
            found.update(np.ascontiguousarray(array).data)
    if found.hexdigest() != spec.sha256:
        raise FedreproError(
            f"data set {spec.dataset}: images and labels have SHA-256 {found.hexdigest()}, but "
            f"src/fedrepro/datasets/{spec.dataset}.yaml says {spec.sha256}; "
            "is another version of the source installed?"
        )


def _check_counts(
    where: str, split: tuple[Images, Images], shape: tuple[int, int, int], published: Sequence[int]
) -> None:
    images, labels = split
    if images.shape[1:] != tuple(shape):
        raise FedreproError(f"{where}: images have shape {images.shape[1:]}, expected {tuple(shape)}")
    found = np.bincount(labels, minlength=len(published)).tolist()
    if found != list(published):
        raise FedreproError(
            f"{where}: {len(labels):,} images, {found} a class, but {sum(published):,} were published, "
            f"{list(published)} a class; the archive is not the published one"
        )


def _packed(images: Images, labels: Images) -> Artifact:
    buffer = io.BytesIO()
    np.save(buffer, pack(images, labels))
    return Artifact(buffer.getvalue(), len(labels))
