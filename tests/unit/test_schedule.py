"""Evaluation rounds, step sizes and minibatches."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrepro.core.rng import stream
from fedrepro.core.schedule import Batches, evaluation_rounds, local_lr
from fedrepro.core.spec import Evaluation, Partition, TrainSpec
from tests.helpers import spec_of, trace_of

SPEC = spec_of(partition=Partition(2, 0.5), batch_size=2, local_steps=3)
CLIENT = np.array([0, 1, 0, 0, 1, 0, 0, 1, 1, 1])  # client 0: images 0, 2, 3, 5, 6


def test_evaluation_rounds_by_hand() -> None:
    """T = 10, window (7, 10] counted back from 10 by 2: 10 and 8.

    Test every 4: 0, 4, 8. Train every 5: 0, 5, 10.
    """
    evaluation = Evaluation(test_every=4, train_every=5, final_rounds=3, final_every=2)
    assert evaluation_rounds(10, evaluation, "test") == [0, 4, 8, 10]
    assert evaluation_rounds(10, evaluation, "train") == [0, 5, 8, 10]


def test_a_run_shorter_than_the_window_never_goes_below_round_one_in_it() -> None:
    """T = 3, back by 2: 3 and 1; the initial model is evaluated anyway."""
    evaluation = Evaluation(test_every=20, train_every=20, final_rounds=50, final_every=2)
    assert evaluation_rounds(3, evaluation, "test") == [0, 1, 3]


def test_the_last_round_is_always_evaluated() -> None:
    evaluation = Evaluation(test_every=3, train_every=100, final_rounds=0, final_every=1)
    assert evaluation_rounds(7, evaluation, "test") == [0, 3, 6, 7]
    assert evaluation_rounds(7, evaluation, "train") == [0, 7]


def test_the_papers_cadence_has_25_evaluations_in_the_last_50_rounds() -> None:
    evaluation = Evaluation(test_every=20, train_every=100, final_rounds=50, final_every=2)
    for split in ("train", "test"):
        found = evaluation_rounds(2000, evaluation, split)
        assert [t for t in found if t > 1950] == list(range(1952, 2001, 2))
        assert 1950 not in found


@pytest.mark.parametrize(("t", "factor"), [(0, 1.0), (30, 0.5), (10, 1 / math.sqrt(2)), (150, 0.25)])
def test_local_step_size_by_hand(t: int, factor: float) -> None:
    """eta_0 / sqrt(t / 10 + 1): a half at t = 30, a quarter at t = 150."""
    assert local_lr(spec_of(local_lr=0.2), t) == pytest.approx(0.2 * factor, rel=1e-15)
    assert local_lr(spec_of(local_lr=0.2, lr_schedule="constant"), t) == 0.2


def batches(spec: TrainSpec, active: NDArray[np.bool_]) -> Batches:
    return Batches(CLIENT, active, spec)


def lists(arrays: list[NDArray[np.int64]]) -> list[list[int]]:
    return [array.tolist() for array in arrays]


def test_batches_by_hand() -> None:
    """Client 0 has 5 images: with batches of 2 an epoch has 2 batches, and its fifth image is dropped.

    Three steps a round: steps 0, 1 are epoch 0 and step 2 opens epoch 1, which goes on in step 3 when the
    client is available again, in round 3; steps 4, 5 are epoch 2.
    """
    found = batches(SPEC, trace_of([0], [1], [], [0, 1], clients=2))
    images = [0, 2, 3, 5, 6]
    epochs = [stream(3, "batch", "mnist5k", 0, e).permutation(images).tolist() for e in range(3)]
    assert lists(found.of(0, 0)) == [epochs[0][:2], epochs[0][2:4], epochs[1][:2]]
    assert lists(found.of(0, 3)) == [epochs[1][2:4], epochs[2][:2], epochs[2][2:4]]


def test_an_epoch_has_no_image_twice_and_only_the_clients_own() -> None:
    spec = spec_of(partition=Partition(2, 0.5), batch_size=2, local_steps=2)
    found = batches(spec, trace_of(*[[0, 1]] * 30, clients=2))
    epochs = [sorted(np.concatenate(found.of(0, t)).tolist()) for t in range(30)]
    assert all(len(set(epoch)) == 4 and set(epoch) <= {0, 2, 3, 5, 6} for epoch in epochs)
    assert {image for epoch in epochs for image in epoch} == {0, 2, 3, 5, 6}
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_a_client_smaller_than_a_batch_uses_all_its_images_every_step() -> None:
    spec = spec_of(partition=Partition(2, 0.5), batch_size=64, local_steps=3)
    found = batches(spec, trace_of([0], [0], clients=2))
    for t in (0, 1):
        assert [sorted(batch) for batch in lists(found.of(0, t))] == [[0, 2, 3, 5, 6]] * 3


def test_position_counts_availabilities_not_rounds() -> None:
    sparse = batches(SPEC, trace_of([], [0], [], [], [0], clients=2))
    dense = batches(SPEC, trace_of([0], [0], clients=2))
    assert lists(sparse.of(0, 1)) == lists(dense.of(0, 0))
    assert lists(sparse.of(0, 4)) == lists(dense.of(0, 1))


def test_other_clients_do_not_matter() -> None:
    alone = batches(SPEC, trace_of([0], [0], [0], clients=2))
    together = batches(SPEC, trace_of([0, 1], [0], [0, 1], clients=2))
    assert [lists(alone.of(0, t)) for t in range(3)] == [lists(together.of(0, t)) for t in range(3)]


def test_the_order_of_calls_does_not_matter() -> None:
    active = trace_of(*[[0, 1]] * 12, clients=2)
    calls = [(client, t) for t in range(12) for client in (0, 1)]
    forward, backward = batches(SPEC, active), batches(SPEC, active)
    first = {call: lists(forward.of(*call)) for call in calls}
    second = {call: lists(backward.of(*call)) for call in reversed(calls)}
    assert first == second


def test_another_seed_gives_other_batches() -> None:
    active = trace_of(*[[0, 1]] * 4, clients=2)
    other = spec_of(seed=4, partition=SPEC.partition, batch_size=2, local_steps=3)
    found = [[lists(batches(spec, active).of(0, t)) for t in range(4)] for spec in (SPEC, other)]
    assert found[0] != found[1]
