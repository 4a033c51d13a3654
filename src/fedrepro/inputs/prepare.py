"""A data set in its prepared form: one memory-mappable file per split."""

import hashlib
import io

import numpy as np

from fedrepro.core import registry
from fedrepro.core.data import pack
from fedrepro.core.job import Artifact, Context, Inputs, Result
from fedrepro.core.spec import PrepareSpec
from fedrepro.errors import FedreproError


def run(spec: PrepareSpec, inputs: Inputs, context: Context) -> Result:
    """Load, check against the data set's card, and pack the splits ``train`` and ``test``."""
    splits = registry.load("dataset", spec.dataset).load()
    found = hashlib.sha256()
    for name in ("train", "test"):
        for array in splits[name]:
            found.update(np.ascontiguousarray(array).data)
    if found.hexdigest() != spec.sha256:
        raise FedreproError(
            f"data set {spec.dataset}: images and labels have SHA-256 {found.hexdigest()}, but "
            f"src/fedrepro/datasets/{spec.dataset}.yaml says {spec.sha256}; "
            "is another version of the source installed?"
        )
    return Result({name: _packed(*splits[name]) for name in ("train", "test")})


def _packed(images: np.ndarray, labels: np.ndarray) -> Artifact:
    buffer = io.BytesIO()
    np.save(buffer, pack(images, labels))
    return Artifact(buffer.getvalue(), len(labels))
