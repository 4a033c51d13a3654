"""Local training of a cohort, one client after the other: the CPU backend.

The local phase is pure: it reads start weights and precomputed minibatches and returns trained weights.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.core.data import Split
from fedrepro.core.model import Model

CLIP_EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_


class LocalSteps(NamedTuple):
    """The local work of one round.

    ``start``: weights (K, d) of the cohort; ``batches``: per client its s index arrays; ``lr``: the step
    size; ``clip_norm``: maximum norm of a step's gradient, or None.
    """

    start: Tensor
    batches: Sequence[Sequence[NDArray[np.int64]]]
    lr: float
    clip_norm: float | None


def local_phase(model: Model, train: Split, work: LocalSteps) -> Tensor:
    """Run plain SGD for every client of the cohort; returns the trained weights, shape (K, d)."""
    trained = torch.empty_like(work.start)
    for row, batches in enumerate(work.batches):
        trained[row] = _train_client(model, train, work.start[row], batches, work)
    return trained


def _train_client(
    model: Model,
    train: Split,
    start: Tensor,
    batches: Sequence[NDArray[np.int64]],
    work: LocalSteps,
) -> Tensor:
    weights = start.clone().requires_grad_()
    for batch in batches:
        indices = torch.from_numpy(batch).to(train.labels.device)
        loss = F.cross_entropy(model.logits(weights, train.images[indices]), train.labels[indices])
        (gradient,) = torch.autograd.grad(loss, weights)
        if work.clip_norm is not None:
            scale = work.clip_norm / (gradient.norm() + CLIP_EPSILON)
            gradient.mul_(scale.clamp(max=1.0))
        weights.detach().sub_(gradient, alpha=work.lr)
    return weights.detach()
