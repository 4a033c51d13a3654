"""Evaluation rounds, step sizes and minibatches."""

import math

import numpy as np
import pytest

from fedrepro.core.schedule import evaluation_rounds, local_lr
from fedrepro.core.spec import Evaluation, Partition
from tests.helpers import spec_of

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
