"""Partitions with keyed streams, and the base probabilities that follow from them."""

import hashlib
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedrepro.core.partition import (
    assign,
    base_probabilities,
    class_counts,
    cut,
    dirichlet_shares,
    iid_assignment,
    sized_assignment,
)
from fedrepro.core.rng import stream
from fedrepro.core.spec import Partition, PartitionSpec
from fedrepro.errors import FedreproError

FOUR = Partition(4, 0.5)


class FixedDirichlet:
    """Stands for a generator: one known draw."""

    def __init__(self, draw: list[list[float]]) -> None:
        self.draw = np.array(draw)
        self.concentration: list[float] = []

    def dirichlet(self, concentration: NDArray[np.float64], size: int) -> NDArray[np.float64]:
        self.concentration = concentration.tolist()
        assert size == len(self.draw)
        return self.draw


def dirichlet_assignment(
    labels: NDArray[np.integer],
    classes: int,
    clients: int,
    alpha: float,
    rng: np.random.Generator,
    groups: int = 1,
) -> NDArray[np.int32]:
    return cut(labels, dirichlet_shares(classes, clients, alpha, groups, rng), alpha)


def test_tiny_example_by_hand() -> None:
    """nu = [[.6, .4], [.2, .8]], so client 0 gets .6/.8 = 3/4 of class 0 and .4/1.2 = 1/3 of class 1.

    Class 0 has the images 0, 2, 4, 5: the first round(4 * 3/4) = 3 go to client 0. Class 1 has the images
    1, 3, 6: the first round(3 * 1/3) = 1 goes to client 0.
    """
    rng = FixedDirichlet([[0.6, 0.4], [0.2, 0.8]])
    labels = np.array([0, 1, 0, 1, 0, 0, 1], dtype=np.uint8)
    client = dirichlet_assignment(labels, 2, 2, 0.7, cast(np.random.Generator, rng))
    assert client.tolist() == [0, 0, 0, 1, 0, 1, 1]
    assert client.dtype == np.int32
    assert rng.concentration == [0.7, 0.7]


@st.composite
def draws(draw: st.DrawFn) -> tuple[NDArray[np.uint8], int, NDArray[np.int32]]:
    """Labels, number of clients, and a partition."""
    classes = draw(st.integers(1, 5))
    labels = draw(st.lists(st.integers(0, classes - 1), max_size=80))
    clients = draw(st.integers(1, 12))
    alpha = draw(st.floats(0.3, 10))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    array = np.array(labels, dtype=np.uint8)
    return array, clients, dirichlet_assignment(array, classes, clients, alpha, rng)


@settings(max_examples=150, deadline=None)
@given(draws())
def test_every_image_has_one_client_and_classes_keep_their_size(
    drawn: tuple[NDArray[np.uint8], int, NDArray[np.int32]],
) -> None:
    labels, clients, client = drawn
    assert client.shape == labels.shape
    assert ((client >= 0) & (client < clients)).all()
    counts = class_counts(labels, client, clients, 5)
    assert counts.shape == (clients, 5)
    assert counts.sum(axis=0).tolist() == np.bincount(labels, minlength=5).tolist()


@settings(max_examples=150, deadline=None)
@given(draws())
def test_within_a_class_clients_hold_contiguous_runs_in_data_set_order(
    drawn: tuple[NDArray[np.uint8], int, NDArray[np.int32]],
) -> None:
    labels, _, client = drawn
    for label in np.unique(labels):
        assert (np.diff(client[labels == label]) >= 0).all()


def test_one_client_gets_everything() -> None:
    labels = np.array([0, 1, 2, 0, 1], dtype=np.uint8)
    client = dirichlet_assignment(labels, 3, 1, 0.5, np.random.default_rng(0))
    assert client.tolist() == [0] * 5


def test_small_alpha_concentrates_and_large_alpha_spreads() -> None:
    labels = np.repeat(np.arange(10, dtype=np.uint8), 200)
    largest = {}
    for alpha in (0.1, 100.0):
        client = dirichlet_assignment(labels, 10, 20, alpha, np.random.default_rng(1))
        counts = class_counts(labels, client, 20, 10)
        largest[alpha] = float((counts.max(axis=1) / counts.sum(axis=1)).mean())
    assert largest[0.1] > 0.5
    assert largest[100.0] < 0.2


def test_too_small_alpha_says_what_to_do() -> None:
    labels = np.arange(10, dtype=np.uint8)
    with pytest.raises(FedreproError, match=r"alpha = 0\.0001 is too small: with 2 clients.*larger alpha"):
        dirichlet_assignment(labels, 10, 2, 1e-4, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("seed", "partition", "digest"),
    [
        (3, Partition(20, 0.1), "bb8d78ce923548ec"),
        (3, Partition(7, 0.5), "5e80a7ebd38e7219"),
        (4, Partition(20, 0.1), "5cc114d7fc3b0a1c"),
        (4, Partition(7, 0.5), "967d2be2369f7978"),
    ],
)
def test_one_group_is_golden(seed: int, partition: Partition, digest: str) -> None:
    """SHA-256 of the clients of 4,000 images, recorded before a partition had groups."""
    labels = np.arange(4000) % 10
    client = assign(labels, 10, PartitionSpec("mnist5k", seed, partition))
    assert client.dtype == np.int32
    assert hashlib.sha256(client.tobytes()).hexdigest()[:16] == digest


def test_two_groups_by_hand() -> None:
    """Clients 0, 1 share classes 0, 1, and clients 2, 3 classes 2, 3; both groups draw the shares above.

    So of 4 images of class 0 client 0 gets 3, and of 3 images of class 1 it gets 1; likewise client 2.
    """
    rng = FixedDirichlet([[0.6, 0.4], [0.2, 0.8]])
    labels = np.array([2, 0, 0, 2, 1, 3, 0, 2, 1, 3, 0, 3, 2, 1], dtype=np.uint8)
    client = dirichlet_assignment(labels, 4, 4, 0.7, cast(np.random.Generator, rng), groups=2)
    assert client.tolist() == [2, 0, 0, 2, 0, 2, 0, 2, 1, 3, 1, 3, 3, 1]
    assert rng.concentration == [0.7, 0.7]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32))
def test_a_group_of_clients_holds_exactly_its_classes(
    groups: int, rows: int, columns: int, seed: int
) -> None:
    clients, classes = groups * rows, groups * columns
    labels = np.random.default_rng(seed).integers(0, classes, 60)
    spec = PartitionSpec("mnist5k", seed, Partition(clients, 0.5, groups=groups))
    client = assign(labels, classes, spec)
    assert (client // rows == labels // columns).all()


def test_groups_of_the_paper() -> None:
    """Section 7.1: clients 0 to 49 hold labels 0 to 4, clients 50 to 99 labels 5 to 9."""
    labels = np.repeat(np.arange(10), 500)
    client = assign(labels, 10, PartitionSpec("cifar10", 3, Partition(100, 0.1, groups=2)))
    counts = class_counts(labels, client, 100, 10)
    assert counts[:50, 5:].sum() == counts[50:, :5].sum() == 0
    assert counts[:50].sum() == counts[50:].sum() == 2500
    assert (counts[:50, :5] != counts[50:, 5:]).any(), "the groups draw their own shares"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 90), st.integers(1, 12), st.integers(0, 2**32))
def test_iid_sizes_differ_by_at_most_one(images: int, clients: int, seed: int) -> None:
    client = iid_assignment(images, clients, np.random.default_rng(seed))
    sizes = np.bincount(client, minlength=clients)
    assert len(sizes) == clients
    assert sizes.sum() == images
    assert sizes.max() - sizes.min() <= 1


def test_iid_cuts_the_seeds_permutation() -> None:
    """7 images in 3 parts: the sizes are 3, 2, 2."""
    client = assign(
        np.zeros(7, np.uint8), 1, PartitionSpec("mnist5k", 3, Partition(3, 0.5, assignment="iid"))
    )
    order = stream(3, "partition", "mnist5k").permutation(7)
    assert client[order].tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert client.dtype == np.int32


def test_iid_clients_hold_all_classes_alike() -> None:
    """10 clients with 400 of 4,000 images: a class has 40 each, sd sqrt(400 .1 .9 .9) = 5.7; 5 sd are 29."""
    labels = np.repeat(np.arange(10), 400)
    client = assign(labels, 10, PartitionSpec("mnist5k", 3, Partition(10, 0.1, assignment="iid")))
    counts = class_counts(labels, client, 10, 10)
    assert counts.sum(axis=1).tolist() == [400] * 10
    assert abs(counts - 40).max() < 29


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 2**32))
def test_sized_clients_hold_exactly_their_sizes(sizes: list[int], seed: int) -> None:
    client = sized_assignment(sizes, np.random.default_rng(seed))
    assert client.dtype == np.int32
    assert np.bincount(client, minlength=len(sizes)).tolist() == sizes


def test_sized_cuts_the_seeds_permutation() -> None:
    partition = Partition(3, 0.5, assignment="sized", sizes=(4, 1, 2))
    client = assign(np.zeros(7, np.uint8), 1, PartitionSpec("mnist5k", 3, partition))
    order = stream(3, "partition", "mnist5k").permutation(7)
    assert client[order].tolist() == [0, 0, 0, 0, 1, 2, 2]
    other = assign(np.zeros(7, np.uint8), 1, PartitionSpec("mnist5k", 4, partition))
    assert client.tolist() != other.tolist()


def test_sizes_of_the_paper() -> None:
    """IncentFedAvg, Section 5: the five clients' sizes sum to MNIST's 60,000; a class is spread evenly.

    Client 0 has a quarter of the 6,000 images of a class: 1,500, sd about sqrt(6000 .25 .75 .9) = 32.
    """
    sizes = (15000, 8000, 18000, 6000, 13000)
    partition = Partition(5, 1.0, assignment="sized", sizes=sizes)
    labels = np.repeat(np.arange(10), 6000)
    counts = class_counts(labels, assign(labels, 10, PartitionSpec("mnist", 3, partition)), 5, 10)
    assert tuple(counts.sum(axis=1)) == sizes
    assert abs(counts[0] - 1500).max() < 5 * 32


def test_assign_depends_on_the_seed_and_nothing_else() -> None:
    labels = np.repeat(np.arange(3, dtype=np.uint8), 30)
    spec = PartitionSpec("mnist5k", 3, Partition(5, 0.5))
    first = assign(labels, 3, spec)
    assert first.tolist() == assign(labels, 3, spec).tolist()
    other = assign(labels, 3, PartitionSpec("mnist5k", 4, Partition(5, 0.5)))
    assert first.tolist() != other.tolist()


def test_base_probabilities_by_hand() -> None:
    """With two classes phi = (u_0, u_1 / 2), where u is the stream's golden (.98006, .73728).

    Client 0 holds 3 of its 4 images in class 0, client 1 nothing, client 2 only class 1.
    """
    phi = (0.9800636608386099, 0.737279955621813 / 2)
    probability = base_probabilities(np.array([[3, 1], [0, 0], [0, 2]]), PartitionSpec("mnist5k", 3, FOUR))
    np.testing.assert_allclose(probability, [0.75 * phi[0] + 0.25 * phi[1], 0.0, phi[1]], rtol=1e-14)


def test_classes_of_the_second_half_are_at_most_half_available() -> None:
    """A client that holds one class only has p_i = phi_c."""
    specs = [PartitionSpec("mnist5k", seed, FOUR) for seed in range(200)]
    phi = np.array([base_probabilities(np.eye(10, dtype=int), spec) for spec in specs])
    assert phi.min() >= 0
    assert phi[:, :5].max() > 0.95
    assert phi.max() <= 1
    assert 0.45 < phi[:, 5:].max() <= 0.5
    assert abs(phi[:, :5].mean() - 0.5) < 0.03
    assert abs(phi[:, 5:].mean() - 0.25) < 0.015


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=1, max_size=6), st.integers(0, 99)
)
def test_base_probabilities_lie_in_the_unit_interval(counts: list[list[int]], seed: int) -> None:
    probability = base_probabilities(np.array(counts), PartitionSpec("mnist5k", seed, FOUR))
    assert probability.shape == (len(counts),)
    assert ((probability >= 0) & (probability <= 1)).all()
    assert [p == 0 for p in probability] == [sum(row) == 0 for row in counts]


def test_probabilities_follow_realised_fractions_not_the_draw() -> None:
    """Doubling a client's images leaves its fractions, and so its p_i, as they are."""
    counts = np.array([[3, 1, 0], [2, 2, 6]])
    spec = PartitionSpec("mnist5k", 3, FOUR)
    once = base_probabilities(counts, spec)
    np.testing.assert_allclose(base_probabilities(2 * counts, spec), once, rtol=1e-14)
