"""Local training of a cohort, one client after the other: the backend for convolutions on CPUs.

The local phase is pure: it reads start weights and precomputed draws and returns trained weights. It is the
reference for the batched backend (`fedrepro.core.cohort`).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.augment import crop, flip
from fedrepro.core.data import Split
from fedrepro.core.dropout import Dropout
from fedrepro.core.minibatches import Minibatches
from fedrepro.core.model import Model

CLIP_EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_


class LocalSteps(NamedTuple):
    """The local work of one round.

    ``start``: weights (K, d) of the cohort; ``draws``: those of its s local steps; ``lr``: the step
    size; ``clip_norm``: maximum norm of a step's gradient, or None; ``crop``: padding of the crops in pixels.
    """

    start: Tensor
    draws: Minibatches
    lr: float
    clip_norm: float | None
    crop: int


LocalPhase = Callable[[Model, Split, LocalSteps], Tensor]


def local_phase(model: Model, train: Split, work: LocalSteps) -> Tensor:
    """Run plain SGD for every client of the cohort; returns the trained weights, shape (K, d)."""
    trained = torch.empty_like(work.start)
    for row in range(len(work.start)):
        trained[row] = _train_client(model, train, work, row)
    return trained


def _train_client(model: Model, train: Split, work: LocalSteps, row: int) -> Tensor:
    weights = work.start[row].clone().requires_grad_()
    device = weights.device
    draws, size = work.draws, int(work.draws.sizes[row])
    keys = torch.from_numpy(draws.dropout[row]).to(device)
    for step in range(len(keys)):
        indices = torch.from_numpy(draws.images[row, step, :size]).to(device)
        images = train.batch(indices)
        if draws.shifts is not None:
            shifts = torch.from_numpy(draws.shifts[row, step, :size])
            images = crop(images, shifts.to(device) if len(shifts) > 1 else shifts, work.crop)
        if draws.flips is not None:
            flips = torch.from_numpy(draws.flips[row, step, :size])
            images = flip(images, flips.to(device) if len(flips) > 1 else flips)
        logits = model.logits(weights, images, dropout=Dropout(keys[step]))
        loss = F.cross_entropy(logits, train.labels.index_select(0, indices))
        (gradient,) = torch.autograd.grad(loss, weights)
        scale = gradient.new_ones(())
        if work.clip_norm is not None:
            scale = (work.clip_norm / (gradient.norm() + CLIP_EPSILON)).clamp(max=1.0)
        weights.detach().addcmul_(gradient, scale, value=-work.lr)
    return weights.detach()
