"""Splitting a training set over clients, and how often each client is available at base rate."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrepro.core import legacy, registry
from fedrepro.core.rng import stream
from fedrepro.core.spec import PartitionSpec
from fedrepro.core.tables import PARTITION, read
from fedrepro.errors import FedreproError


def dirichlet_shares(
    classes: int, clients: int, alpha: float, groups: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """One draw per client over the classes of its group, ``nu_i ~ Dirichlet(alpha 1)``; shape (m, C).

    Clients and classes are cut into ``groups`` equal contiguous blocks. A client's share of a class of
    another group is 0. (FedSWE paper, Section 7.1; one group is Section 7.2.)
    """
    share = np.zeros((clients, classes))
    rows, columns = clients // groups, classes // groups
    for group in range(groups):
        block = rng.dirichlet(np.full(columns, alpha), size=rows)
        share[group * rows : (group + 1) * rows, group * columns : (group + 1) * columns] = block
    return share


def cut(labels: NDArray[np.integer], share: NDArray[np.float64], alpha: float) -> NDArray[np.int32]:
    """Assign every training image to one client, in proportion to the clients' shares of its class.

    Per class the images, kept in data-set order, are cut contiguously at
    ``round(N_c sum_{j <= i} nu_jc / sum_j nu_jc)``. Sizes are unequal, there is no minimum size and no
    rejection. (FedSWE paper, appendix H.1; the cut is that of the authors' released code.)

    Parameters
    ----------
    labels : int array, shape (N,)
        Class of each training image, in data-set order.
    share : float array, shape (m, C)
        Dirichlet draws nu_i of the clients.
    alpha : float > 0
        Their concentration, for the message.

    Returns
    -------
    int32 array, shape (N,)
        Client of each image.

    Raises
    ------
    FedreproError
        If the draw gave some class to nobody, which a very small alpha does.
    """
    clients, classes = share.shape
    with np.errstate(invalid="ignore", divide="ignore"):
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


def iid_assignment(images: int, clients: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """A random permutation of N images, cut into m parts whose sizes differ by at most one; shape (N,)."""
    client = np.empty(images, dtype=np.int32)
    client[rng.permutation(images)] = np.arange(images) * clients // images
    return client


def sized_assignment(sizes: Sequence[int], rng: np.random.Generator) -> NDArray[np.int32]:
    """A random permutation of the images, cut into parts of the given sizes; shape (sum of sizes,).

    (IncentFedAvg paper, Section 5: client i holds N_i^max images.)
    """
    client = np.empty(sum(sizes), dtype=np.int32)
    client[rng.permutation(len(client))] = np.repeat(np.arange(len(sizes)), sizes)
    return client


def assign(labels: NDArray[np.integer], classes: int, spec: PartitionSpec) -> NDArray[np.int32]:
    """The partition of one specification: the client of each image, shape (N,)."""
    chosen = spec.partition
    rng = stream(spec.seed, "partition", spec.dataset)
    if chosen.assignment == "iid":
        return iid_assignment(len(labels), chosen.clients, rng)
    if chosen.assignment == "sized":
        return sized_assignment(chosen.sizes, rng)
    if chosen.streams == "legacy":
        share = legacy.replay(spec.seed, chosen, classes).share
    else:
        share = dirichlet_shares(classes, chosen.clients, chosen.alpha, chosen.groups, rng)
    return cut(labels, share, chosen.alpha)


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


def base_probabilities(counts: NDArray[np.integer], spec: PartitionSpec) -> NDArray[np.float64]:
    """Base availability ``p_i = <nu_i, phi>`` of every client of a partition, shape (m,).

    ``nu_i`` are the class fractions the client really holds after the cut (as in the released code; the
    paper writes the Dirichlet draw), ``phi_c ~ U(0, 1)`` for the first half of the classes and
    ``U(0, 0.5)`` for the rest, one phi per seed. A client without images is never available.

    Parameters
    ----------
    counts : int array, shape (m, C)
        Images of each class at each client.
    spec : PartitionSpec
        The partition they come from; its seed and streams decide phi.
    """
    sizes = counts.sum(axis=1, keepdims=True)
    fractions = np.divide(counts, sizes, out=np.zeros(counts.shape), where=sizes > 0)
    return np.asarray(fractions @ _class_weights(counts.shape[1], spec))


def _class_weights(classes: int, spec: PartitionSpec) -> NDArray[np.float64]:
    """``phi`` of a seed, shape (C,)."""
    if spec.partition.streams == "legacy":
        return legacy.replay(spec.seed, spec.partition, classes).phi
    upper = np.where(np.arange(classes) < classes / 2, 1.0, 0.5)
    return upper * stream(spec.seed, "phi", spec.dataset).random(classes)
