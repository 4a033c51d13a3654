"""Loss, accuracy and consensus error of a run."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.data import Split
from fedrepro.core.model import Model

CHUNK = 256  # images per forward pass


class Score(NamedTuple):
    """Mean cross-entropy in nats and accuracy as a fraction, over all images of a split."""

    loss: float
    accuracy: float


@torch.inference_mode()
def evaluate(model: Model, weights: Tensor, split: Split) -> Score:
    """Score the flat weights (d,) on a split: per-sample means, no augmentation."""
    loss, correct = 0.0, 0
    for images, labels in zip(split.images.split(CHUNK), split.labels.split(CHUNK), strict=True):
        logits = model.logits(weights, images)
        loss += F.cross_entropy(logits.double(), labels, reduction="sum").item()
        correct += int((logits.argmax(1) == labels).sum())
    return Score(loss / len(split.labels), correct / len(split.labels))


def consensus_error(local: Tensor) -> float:
    """``(1/m) sum_i ||x_i - xbar||^2`` over the clients' models (m, d) (FedSWE paper, Fig. 6)."""
    centred = local.double() - local.double().mean(0)
    return float(centred.square().sum() / len(local))
