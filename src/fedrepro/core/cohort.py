"""Local training of a whole cohort at once: the backend for GPUs, and for networks without convolutions.

Every operation of a local step carries all clients, and nothing inside it waits for the device. Equal to
`fedrepro.core.local` up to the order of sums. With ``graphs`` the local phase of a cohort size is recorded
once as a CUDA graph and replayed; sizes are rounded up, the added clients have no images.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.augment import crop, flip
from fedrepro.core.data import Split
from fedrepro.core.dropout import Dropout
from fedrepro.core.layers import ClientLayers, GroupedLayers, HybridLayers, Layers, UnfoldedLayers
from fedrepro.core.local import CLIP_EPSILON, LocalPhase, LocalSteps, local_phase
from fedrepro.core.model import Model

Design = Literal["grouped", "unfolded", "hybrid", "vmap"]
LAYERS: dict[Design, Layers] = {
    "grouped": GroupedLayers(),
    "unfolded": UnfoldedLayers(),
    "hybrid": HybridLayers(),
}
DESIGNS: tuple[Design, ...] = (*LAYERS, "vmap")
PLAIN = ClientLayers()
CAPACITY = 8  # recorded cohort sizes are multiples of this


class Steps(NamedTuple):
    """The draws of a round as tensors on the device, steps first.

    ``images``: (s, K, B); ``shifts``: (s, K, B, 2) or None; ``flips``: (s, K, B) or None; ``dropout``:
    (s, K); ``share``: (K, B), what each image counts in its client's mean loss, 0 for padding; ``lr``: ().
    """

    images: Tensor
    shifts: Tensor | None
    flips: Tensor | None
    dropout: Tensor
    share: Tensor
    lr: Tensor


@dataclass
class CohortPhase:
    """The local phase of a cohort, in one of several designs that compute the same.

    ``design``: how convolutions carry the clients: ``grouped`` (one grouped convolution), ``unfolded``
    (batched products with unfolded images), ``hybrid`` (unfolded where there are few channels), ``vmap``
    (`torch.func.vmap` of the single client's gradient). ``graphs``: record CUDA graphs.
    """

    design: Design = "grouped"
    graphs: bool = False
    _recorded: dict[tuple[int, ...], "_Recording"] = field(default_factory=dict)

    def __call__(self, model: Model, train: Split, work: LocalSteps) -> Tensor:
        """Run plain SGD for every client of the cohort; returns the trained weights, shape (K, d)."""
        clients = len(work.start)
        if not clients:
            return work.start.clone()
        gradients = _gradients(model, self.design)
        if not self.graphs:
            steps = _on_device(work, work.start, clients)
            return _descend(gradients, train, work.start, steps, work.clip_norm, work.crop)
        capacity = -(-clients // CAPACITY) * CAPACITY
        steps = _on_device(work, work.start, capacity)
        key = (capacity, *steps.images.shape)
        start = torch.cat([work.start, work.start[:1].expand(capacity - clients, -1)])
        if key not in self._recorded:
            self._recorded[key] = _Recording(gradients, train, start, steps, work.clip_norm, work.crop)
        return self._recorded[key].replay(start, steps)[:clients]


Gradients = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _gradients(model: Model, design: Design) -> Gradients:
    """``(weights (K, d), images, labels (K, B), share (K, B), keys (K,)) -> (K, d)``."""
    if design == "vmap":
        return torch.func.vmap(torch.func.grad(_client_loss(model)))
    layers = LAYERS[design]

    def gradients(weights: Tensor, images: Tensor, labels: Tensor, share: Tensor, keys: Tensor) -> Tensor:
        weights = weights.detach().requires_grad_()
        logits = model.logits(weights, images, layers, Dropout(keys))
        losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        return torch.autograd.grad((losses * share.flatten()).sum(), weights)[0]

    return gradients


def _client_loss(model: Model) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    def loss(weights: Tensor, images: Tensor, labels: Tensor, share: Tensor, key: Tensor) -> Tensor:
        logits = model.logits(weights, images, PLAIN, Dropout(key))
        return (F.cross_entropy(logits, labels, reduction="none") * share).sum()

    return loss


def _descend(
    gradients: Gradients, train: Split, start: Tensor, steps: Steps, clip_norm: float | None, padding: int
) -> Tensor:
    weights = start.clone()
    for step, indices in enumerate(steps.images):
        images = train.batch(indices.flatten())
        if steps.shifts is not None:
            images = crop(images, steps.shifts[step].flatten(0, 1), padding)
        if steps.flips is not None:
            images = flip(images, steps.flips[step].flatten())
        images = images.unflatten(0, indices.shape)
        labels = train.labels[indices]
        gradient = gradients(weights, images, labels, steps.share, steps.dropout[step])
        if clip_norm is not None:
            scale = clip_norm / (torch.linalg.vector_norm(gradient, dim=1) + CLIP_EPSILON)
            gradient = gradient * scale.clamp(max=1.0)[:, None]
        weights -= steps.lr * gradient
    return weights


def _on_device(work: LocalSteps, like: Tensor, capacity: int) -> Steps:
    """The draws of a round for ``capacity`` clients, on the device and in the precision of ``like``."""
    draws = work.draws
    batch = draws.images.shape[2]
    share = (np.arange(batch) < draws.sizes[:, None]) / draws.sizes[:, None]

    def upload(values: np.ndarray) -> Tensor:
        padded = np.zeros((capacity, *values.shape[1:]), dtype=values.dtype)
        padded[: len(values)] = values
        host = torch.from_numpy(padded)
        return (host.pin_memory() if like.is_cuda else host).to(like.device, non_blocking=True)

    shifts, flips = draws.shifts, draws.flips
    return Steps(
        upload(draws.images).transpose(0, 1),
        None if shifts is None else upload(shifts).transpose(0, 1).expand(-1, -1, batch, -1),
        None if flips is None else upload(flips).transpose(0, 1).expand(-1, -1, batch),
        upload(draws.dropout).transpose(0, 1),
        upload(share).to(like.dtype),
        torch.full((), work.lr, dtype=like.dtype, device=like.device),
    )


class _Recording:
    """A CUDA graph of one cohort size's local phase, with its own input and output tensors."""

    def __init__(
        self,
        gradients: Gradients,
        train: Split,
        start: Tensor,
        steps: Steps,
        clip_norm: float | None,
        padding: int,
    ):
        self._inputs = [start, *(part for part in steps if part is not None)]
        self._inputs = [part.clone(memory_format=torch.contiguous_format) for part in self._inputs]
        parts = iter(self._inputs[1:])
        own = Steps(*(None if part is None else next(parts) for part in steps))  # type: ignore[arg-type]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries choose their kernels before recording
            for _ in range(2):
                _descend(gradients, train, self._inputs[0], own, clip_norm, padding)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._trained = _descend(gradients, train, self._inputs[0], own, clip_norm, padding)

    def replay(self, start: Tensor, steps: Steps) -> Tensor:
        """Run the recorded steps on other inputs of the same shapes."""
        given = [start, *(part for part in steps if part is not None)]
        for own, part in zip(self._inputs, given, strict=True):
            own.copy_(part)
        self._graph.replay()
        return self._trained.clone()


def suited_phase(model: Model, device: str) -> LocalPhase:
    """One client after the other where a CPU trains convolutions, otherwise the whole cohort at once."""
    return local_phase if device == "cpu" and model.convolutional else CohortPhase()
