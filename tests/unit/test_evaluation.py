"""Loss, accuracy and consensus error, by hand."""

import math

import pytest
import torch

from fedrepro.core.data import Split
from fedrepro.core.evaluation import CHUNK, consensus_error, evaluate
from tests.helpers import SHAPE, spec_of, synthetic_model

MODEL = synthetic_model(spec_of())
INPUTS = math.prod(SHAPE)


def biased(*bias: float) -> torch.Tensor:
    """Weights whose logits are the same for every image."""
    flat = torch.zeros(MODEL.size)
    flat[3 * INPUTS :] = torch.tensor(bias)
    return flat


def split(labels: list[int]) -> Split:
    images = torch.zeros(len(labels), *SHAPE, dtype=torch.uint8)
    return Split(images, torch.tensor(labels), torch.ones(1), torch.zeros(1))


def test_zero_weights_lose_log_three() -> None:
    score = evaluate(MODEL, biased(0, 0, 0), split([0, 1, 2, 0]))
    assert score.loss == pytest.approx(math.log(3), rel=1e-7)
    assert score.accuracy == 0.5  # the first of equal logits


def test_score_by_hand() -> None:
    """Logits (0, ln 2, 0) give probabilities (1/4, 1/2, 1/4): losses ln 2 and ln 4, one of two right."""
    score = evaluate(MODEL, biased(0, math.log(2), 0), split([1, 0]))
    assert score.loss == pytest.approx(1.5 * math.log(2), rel=1e-7)
    assert score.accuracy == 0.5


def test_means_are_per_image_not_per_chunk() -> None:
    """CHUNK images of loss ln 2 and 44 of loss ln 4."""
    score = evaluate(MODEL, biased(0, math.log(2), 0), split([1] * CHUNK + [0] * 44))
    expected = (CHUNK * math.log(2) + 44 * math.log(4)) / (CHUNK + 44)
    assert score.loss == pytest.approx(expected, rel=1e-7)
    assert score.accuracy == CHUNK / (CHUNK + 44)


def test_weights_that_are_not_finite_have_a_loss_that_is_not() -> None:
    assert not math.isfinite(evaluate(MODEL, biased(math.nan, 0, 0), split([0, 1])).loss)


def test_consensus_error_by_hand() -> None:
    """Models (0,0), (2,0), (1,3) have mean (1,1) and squared distances 2, 2, 4: mean 8/3."""
    local = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 3.0]])
    assert consensus_error(local) == pytest.approx(8 / 3, rel=1e-15)


def test_consensus_error_of_many_clients_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many entries at a time, and no fewer than one column; the same number in the end."""
    local = torch.arange(35, dtype=torch.float32).view(7, 5).square()
    whole = consensus_error(local)
    for entries in (1, 7, 20):
        monkeypatch.setattr("fedrepro.core.evaluation.ENTRIES", entries)
        assert consensus_error(local) == pytest.approx(whole, rel=1e-14)


def test_equal_models_agree_exactly() -> None:
    assert consensus_error(torch.tensor([0.1, 0.7]).repeat(5, 1)) == pytest.approx(0, abs=1e-30)
