"""Loss, accuracy and consensus error of a run."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.data import Split
from fedrepro.core.model import Model

CHUNK = 256  # images per forward pass
CUDA_CHUNK = 4096
ENTRIES = 100 * 2**16  # of the clients' models per step of the consensus error, in double precision


class Score(NamedTuple):
    """Mean cross-entropy in nats and accuracy as a fraction, over all images of a split."""

    loss: float
    accuracy: float


@torch.inference_mode()
def evaluate(model: Model, weights: Tensor, split: Split) -> Score:
    """Score the flat weights (d,) on a split: per-sample means, no augmentation, no dropout."""
    loss = torch.zeros((), dtype=torch.float64, device=weights.device)
    correct = torch.zeros((), dtype=torch.int64, device=weights.device)
    chunk = CUDA_CHUNK if weights.is_cuda else CHUNK
    for images, labels in zip(split.images.split(chunk), split.labels.split(chunk), strict=True):
        logits = model.logits(weights, split.normalise(images))
        loss += F.cross_entropy(logits.double(), labels, reduction="sum")
        correct += (logits.argmax(1) == labels).sum()
    return Score(loss.item() / len(split.labels), int(correct) / len(split.labels))


def consensus_error(local: Tensor) -> float:
    """``(1/m) sum_i ||x_i - xbar||^2`` over the clients' models (m, d) (FedSWE paper, Fig. 6)."""
    squares = local.new_zeros((), dtype=torch.float64)
    for part in local.split(max(ENTRIES // len(local), 1), dim=1):
        weights = part.double()
        squares += (weights - weights.mean(0)).square().sum()
    return float(squares) / len(local)
