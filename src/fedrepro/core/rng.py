"""Keyed random streams: randomness is a function of (seed, purpose, data set, indices).

There is no global generator and no iterator state. The same key gives the same draws in every process,
for every algorithm, in any order; so runs of one seed are paired and a resumed run continues exactly.
"""

import hashlib

import numpy as np

PURPOSES = (
    "partition", "phi", "trace", "init", "batch", "augment", "dropout", "select", "oracle", "bootstrap",
    "game", "subset",
)  # fmt: skip


def stream(seed: int, purpose: str, dataset: str, *indices: int) -> np.random.Generator:
    """A fresh generator for one key.

    Parameters
    ----------
    seed : int
        Seed of the run.
    purpose : str
        One of `PURPOSES`; never the name of an algorithm, so that algorithms share their randomness.
    dataset : str
        Name of the data set, or ``""`` where none is involved.
    indices : int
        Further coordinates, e.g. (client, epoch).

    Returns
    -------
    numpy.random.Generator
        A Philox counter generator whose 128-bit key is the SHA-256 of the stream's key.
    """
    if purpose not in PURPOSES:
        raise ValueError(f"unknown purpose {purpose!r}: one of {PURPOSES}")
    text = "/".join((str(seed), purpose, dataset, *map(str, indices)))
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key))
