"""Minibatches, crops, flips and dropout keys, by hand."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrepro.core.minibatches import Sampler
from fedrepro.core.rng import stream
from fedrepro.core.spec import Partition, TrainSpec
from tests.helpers import spec_of, trace_of

CLIENT = np.array([0, 1, 0, 0, 1, 0, 0, 1, 1, 1])  # client 0: images 0, 2, 3, 5, 6
SPEC = spec_of(partition=Partition(2, 0.5), batch_size=2, local_steps=3)


class Steps:
    """The sampler's image indices of one client and round, as lists."""

    def __init__(self, spec: TrainSpec, active: NDArray[np.bool_]) -> None:
        self._sampler = Sampler(CLIENT, active, spec)

    def of(self, client: int, t: int) -> list[list[int]]:
        draws = self._sampler.draw(np.array([client]), t)
        steps: list[list[int]] = draws.images[0, :, : draws.sizes[0]].tolist()
        return steps


def test_batches_by_hand() -> None:
    """Client 0 has 5 images: with batches of 2 an epoch has 2 batches, and its fifth image is dropped.

    Three steps a round: steps 0, 1 are epoch 0 and step 2 opens epoch 1, which goes on in step 3 when the
    client is available again, in round 3; steps 4, 5 are epoch 2.
    """
    found = Steps(SPEC, trace_of([0], [1], [], [0, 1], clients=2))
    images = [0, 2, 3, 5, 6]
    epochs = [stream(3, "batch", "mnist5k", 0, e).permutation(images).tolist() for e in range(3)]
    assert found.of(0, 0) == [epochs[0][:2], epochs[0][2:4], epochs[1][:2]]
    assert found.of(0, 3) == [epochs[1][2:4], epochs[2][:2], epochs[2][2:4]]


def test_an_epoch_has_no_image_twice_and_only_the_clients_own() -> None:
    spec = spec_of(partition=Partition(2, 0.5), batch_size=2, local_steps=2)
    found = Steps(spec, trace_of(*[[0, 1]] * 30, clients=2))
    epochs = [sorted(np.concatenate(found.of(0, t)).tolist()) for t in range(30)]
    assert all(len(set(epoch)) == 4 and set(epoch) <= {0, 2, 3, 5, 6} for epoch in epochs)
    assert {image for epoch in epochs for image in epoch} == {0, 2, 3, 5, 6}
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_a_client_smaller_than_a_batch_uses_all_its_images_every_step() -> None:
    spec = spec_of(partition=Partition(2, 0.5), batch_size=64, local_steps=3)
    found = Steps(spec, trace_of([0], [0], clients=2))
    for t in (0, 1):
        assert [sorted(batch) for batch in found.of(0, t)] == [[0, 2, 3, 5, 6]] * 3


def test_position_counts_availabilities_not_rounds() -> None:
    sparse = Steps(SPEC, trace_of([], [0], [], [], [0], clients=2))
    dense = Steps(SPEC, trace_of([0], [0], clients=2))
    assert sparse.of(0, 1) == dense.of(0, 0)
    assert sparse.of(0, 4) == dense.of(0, 1)


def test_other_clients_do_not_matter() -> None:
    alone = Steps(SPEC, trace_of([0], [0], [0], clients=2))
    together = Steps(SPEC, trace_of([0, 1], [0], [0, 1], clients=2))
    assert [alone.of(0, t) for t in range(3)] == [together.of(0, t) for t in range(3)]


def test_the_order_of_calls_does_not_matter() -> None:
    active = trace_of(*[[0, 1]] * 12, clients=2)
    calls = [(client, t) for t in range(12) for client in (0, 1)]
    forward, backward = Steps(SPEC, active), Steps(SPEC, active)
    first = {call: forward.of(*call) for call in calls}
    second = {call: backward.of(*call) for call in reversed(calls)}
    assert first == second


def test_another_seed_gives_other_batches() -> None:
    active = trace_of(*[[0, 1]] * 4, clients=2)
    other = spec_of(seed=4, partition=SPEC.partition, batch_size=2, local_steps=3)
    found = [[Steps(spec, active).of(0, t) for t in range(4)] for spec in (SPEC, other)]
    assert found[0] != found[1]


def test_a_cohort_is_padded_to_its_largest_batch() -> None:
    """Client 0 has 3 images and client 1 has 5: with batches of 4 the first uses 3 of 4 places."""
    client = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    spec = spec_of(partition=Partition(2, 0.5), batch_size=4, local_steps=2)
    draws = Sampler(client, trace_of([0, 1], clients=2), spec).draw(np.array([0, 1]), 0)
    assert draws.images.shape == (2, 2, 4)
    assert draws.sizes.tolist() == [3, 4]
    assert [sorted(step) for step in draws.images[0, :, :3].tolist()] == [[0, 1, 2]] * 2
    assert set(draws.images[1].ravel().tolist()) <= {3, 4, 5, 6, 7}
    alone = Sampler(client, trace_of([0, 1], clients=2), spec).draw(np.array([0]), 0)
    assert (alone.images[0] == draws.images[0, :, :3]).all()


def test_an_empty_cohort_draws_nothing() -> None:
    draws = Sampler(CLIENT, trace_of([], clients=2), SPEC).draw(np.array([], dtype=np.int64), 0)
    assert draws.images.shape[0] == draws.sizes.size == draws.dropout.shape[0] == 0


def augmented(**changes: Any) -> Sampler:
    spec = spec_of(partition=Partition(2, 0.5), batch_size=4, local_steps=50, **changes)
    return Sampler(CLIENT, trace_of(*[[0, 1]] * 5, clients=2), spec)


def test_without_augmentation_nothing_is_drawn_for_it() -> None:
    draws = augmented().draw(np.array([0]), 0)
    assert draws.shifts is None
    assert draws.flips is None


def test_one_crop_and_flip_for_a_minibatch() -> None:
    """50 steps of 2 clients, padding 4: corners are uniform on 0..8, flips on half of the batches.

    The mean corner of 200 coordinates is 4 with standard error sqrt(60/9/200) = .18; 100 flips have standard
    error .05.
    """
    draws = augmented(crop=4, flip=True).draw(np.array([0, 1]), 3)
    assert draws.shifts is not None
    assert draws.flips is not None
    assert draws.shifts.shape == (2, 50, 1, 2)
    assert draws.flips.shape == (2, 50, 1)
    assert set(draws.shifts.ravel().tolist()) == set(range(9))
    assert draws.shifts.mean() == pytest.approx(4, abs=0.8)
    assert draws.flips.mean() == pytest.approx(0.5, abs=0.2)


def test_per_image_every_image_has_its_own() -> None:
    draws = augmented(crop=2, flip=True, augment_per="image").draw(np.array([0]), 0)
    assert draws.shifts is not None
    assert draws.flips is not None
    assert draws.shifts.shape == (1, 50, 4, 2)
    assert draws.flips.shape == (1, 50, 4)
    assert (draws.shifts != draws.shifts[:, :, :1]).any()


def test_augmentation_and_keys_depend_on_client_and_round_alone() -> None:
    sampler = augmented(crop=4, flip=True)
    both, one = sampler.draw(np.array([0, 1]), 2), sampler.draw(np.array([1]), 2)
    assert both.shifts is not None
    assert one.shifts is not None
    assert (both.shifts[1] == one.shifts[0]).all()
    assert (both.dropout[1] == one.dropout[0]).all()
    assert (both.dropout[0] != both.dropout[1]).any()
    later = sampler.draw(np.array([1]), 3)
    assert later.shifts is not None
    assert (later.shifts != one.shifts).any()
    assert (later.dropout != one.dropout).any()
    assert len(np.unique(both.dropout)) == both.dropout.size
