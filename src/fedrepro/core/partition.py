"""Splitting a training set over clients, and how often each client is available at base rate."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrepro.core import registry
from fedrepro.core.rng import stream
from fedrepro.core.spec import PartitionSpec
from fedrepro.core.tables import PARTITION, read
from fedrepro.errors import FedreproError


def dirichlet_assignment(
    labels: NDArray[np.integer], classes: int, clients: int, alpha: float, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Assign every training image to one client.

    One draw per client over classes, ``nu_i ~ Dirichlet(alpha 1)``, then per class the images, kept in
    data-set order, are cut contiguously in proportion to the clients' ``nu_ic``. Sizes are unequal,
    there is no minimum size and no rejection. (FedSWE paper, appendix H.1; the cut follows the authors'
    released code.)

    Parameters
    ----------
    labels : int array, shape (N,)
        Class of each training image, in data-set order.
    classes, clients : int
        Number of classes C and clients m.
    alpha : float > 0
        Concentration; smaller is more heterogeneous.
    rng : numpy.random.Generator
        Source of the (m, C) Dirichlet draw.

    Returns
    -------
    int32 array, shape (N,)
        Client of each image.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = rng.dirichlet(np.full(classes, alpha), size=clients)
        share = share / share.sum(axis=0)
    if not np.isfinite(share).all():
        raise FedreproError(
            f"partition.alpha = {alpha} is too small: with {clients} clients some class went to nobody; "
            "use a larger alpha or more clients"
        )
    client = np.empty(len(labels), dtype=np.int32)
    for label in range(classes):
        images = np.flatnonzero(labels == label)
        cuts = np.round(len(images) * np.cumsum(share[:, label])).astype(np.int64)
        cuts[-1] = len(images)
        client[images] = np.repeat(np.arange(clients, dtype=np.int32), np.diff(cuts, prepend=0))
    return client


def assign(labels: NDArray[np.integer], classes: int, spec: PartitionSpec) -> NDArray[np.int32]:
    """The partition of one specification: `dirichlet_assignment` on its keyed stream."""
    rng = stream(spec.seed, "partition", spec.dataset)
    return dirichlet_assignment(labels, classes, spec.partition.clients, spec.partition.alpha, rng)


def class_counts(
    labels: NDArray[np.integer], client: NDArray[np.integer], clients: int, classes: int
) -> NDArray[np.int64]:
    """Images of each class at each client, shape (m, C)."""
    counts = np.bincount(client.astype(np.int64) * classes + labels, minlength=clients * classes)
    return counts.reshape(clients, classes)


def read_class_counts(path: Path, dataset: str, clients: int) -> NDArray[np.int64]:
    """`class_counts` of a partition file."""
    table = read(path, PARTITION)
    classes = registry.load("dataset", dataset).CLASSES
    return class_counts(table["label"].to_numpy(), table["client"].to_numpy(), clients, classes)


def base_probabilities(counts: NDArray[np.integer], seed: int, dataset: str) -> NDArray[np.float64]:
    """Base availability ``p_i = <nu_i, phi>`` of every client, shape (m,).

    ``nu_i`` are the class fractions the client really holds after the cut (as in the released code; the
    paper writes the Dirichlet draw), ``phi_c ~ U(0, 1)`` for the first half of the classes and
    ``U(0, 0.5)`` for the rest, one phi per seed. A client without images is never available.
    """
    classes = counts.shape[1]
    upper = np.where(np.arange(classes) < classes / 2, 1.0, 0.5)
    phi = upper * stream(seed, "phi", dataset).random(classes)
    sizes = counts.sum(axis=1, keepdims=True)
    fractions = np.divide(counts, sizes, out=np.zeros(counts.shape), where=sizes > 0)
    return np.asarray(fractions @ phi)
