"""Local training, against a closed-form gradient and PyTorch's own clipping.

An mlp without hidden layers is softmax regression: with P = softmax(X W^T + b) and one-hot labels Y the
gradient of the mean cross-entropy over B images is (P - Y)^T X / B for W and the column means of P - Y for b.
"""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedrepro.core.local import LocalSteps, local_phase
from fedrepro.core.minibatches import Minibatches
from fedrepro.core.spec import Choice
from tests.helpers import SHAPE, spec_of, synthetic_model, synthetic_task

SPEC = spec_of(numerics="fp64")
TASK = synthetic_task(SPEC)
MODEL = synthetic_model(SPEC)
BATCHES = [[0, 4, 8], [12, 16, 20], [1, 2, 3]]
LR = 0.3


def work_of(start: torch.Tensor, *clients: list[list[int]], clip_norm: float | None = None) -> LocalSteps:
    """Local work on given batches; batches of different clients may differ in size."""
    sizes = np.array([len(batches[0]) for batches in clients])
    images = np.zeros(
        (len(clients), max(map(len, clients), default=0), max(sizes, default=0)), dtype=np.int64
    )
    for row, batches in enumerate(clients):
        images[row, :, : sizes[row]] = batches
    keys = np.zeros(images.shape[:2], dtype=np.int32)
    return LocalSteps(start, Minibatches(images, sizes, None, None, keys), LR, clip_norm, 0)


def gradient(flat: NDArray[np.float64], batch: list[int]) -> NDArray[np.float64]:
    inputs = int(np.prod(SHAPE))
    weight, bias = flat[: 3 * inputs].reshape(3, inputs), flat[3 * inputs :]
    images = TASK.train.batch(torch.tensor(batch)).flatten(1).numpy()
    exponent = np.exp(images @ weight.T + bias)
    error = exponent / exponent.sum(axis=1, keepdims=True)
    error[np.arange(len(batch)), TASK.train.labels.numpy()[batch]] -= 1
    return np.concatenate([(error.T @ images / len(batch)).ravel(), error.mean(axis=0)])


def starts(number: int, scale: float = 1.0) -> torch.Tensor:
    rng = np.random.default_rng(2)
    return torch.from_numpy(scale * rng.standard_normal((number, MODEL.size)))


def test_one_step_follows_the_closed_form_gradient() -> None:
    start = starts(1)
    trained = local_phase(MODEL, TASK.train, work_of(start, BATCHES[:1]))
    expected = start[0].numpy() - LR * gradient(start[0].numpy(), BATCHES[0])
    np.testing.assert_allclose(trained[0].numpy(), expected, rtol=0, atol=1e-14)


def test_steps_follow_one_another() -> None:
    """Three steps: each gradient is taken where the last step ended."""
    start = starts(1)
    expected = start[0].numpy().copy()
    for batch in BATCHES:
        expected -= LR * gradient(expected, batch)
    trained = local_phase(MODEL, TASK.train, work_of(start, BATCHES))
    np.testing.assert_allclose(trained[0].numpy(), expected, rtol=0, atol=1e-13)


def test_every_client_trains_from_its_own_start_on_its_own_batches() -> None:
    start = starts(2)
    own = [[0, 4, 8], [12, 16, 20, 24, 28]]
    trained = local_phase(MODEL, TASK.train, work_of(start, *([batch] for batch in own))).numpy()
    for row, batch in enumerate(own):
        expected = start[row].numpy() - LR * gradient(start[row].numpy(), batch)
        np.testing.assert_allclose(trained[row], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_clipping_to_norm_half_equals_pytorchs(scale: float) -> None:
    """Both gradients here are longer than .5, so that clipping acts."""
    start = starts(1, scale)
    raw = gradient(start[0].numpy(), BATCHES[0])
    assert np.linalg.norm(raw) > 0.5
    parameter = torch.nn.Parameter(start[0].clone())
    parameter.grad = torch.from_numpy(raw)
    torch.nn.utils.clip_grad_norm_([parameter], 0.5)
    expected = start[0] - LR * parameter.grad
    trained = local_phase(MODEL, TASK.train, work_of(start, BATCHES[:1], clip_norm=0.5))
    torch.testing.assert_close(trained[0], expected, rtol=0, atol=1e-14)
    assert float((trained[0] - start[0]).norm()) == pytest.approx(LR * 0.5, rel=1e-5)


def test_a_gradient_within_the_norm_is_left_alone() -> None:
    start = starts(1)
    free = local_phase(MODEL, TASK.train, work_of(start, BATCHES[:1]))
    wide = local_phase(MODEL, TASK.train, work_of(start, BATCHES[:1], clip_norm=1e6))
    assert torch.equal(free, wide)


def test_the_local_phase_is_pure() -> None:
    start = starts(2)
    work = work_of(start, BATCHES, BATCHES, clip_norm=0.5)
    copies = start.clone(), TASK.train.images.clone(), work.draws.images.copy()
    first = local_phase(MODEL, TASK.train, work)
    assert torch.equal(start, copies[0])
    assert torch.equal(TASK.train.images, copies[1])
    assert (work.draws.images == copies[2]).all()
    assert torch.equal(first, local_phase(MODEL, TASK.train, work))
    assert not torch.equal(first, start)
    assert not first.requires_grad


def test_an_expanded_start_is_not_written_to() -> None:
    """The server's weights reach the cohort as a view; training one client must not move the other."""
    server = starts(1)[0]
    work = work_of(server.expand(2, -1), BATCHES[:2], BATCHES[1:])
    alone = local_phase(MODEL, TASK.train, work_of(server[None], BATCHES[1:]))
    before = server.clone()
    assert torch.equal(local_phase(MODEL, TASK.train, work)[1], alone[0])
    assert torch.equal(server, before)


def test_an_empty_cohort_gives_an_empty_answer() -> None:
    trained = local_phase(MODEL, TASK.train, work_of(starts(1)[:0]))
    assert trained.shape == (0, MODEL.size)


def test_hidden_layers_use_the_gradient_of_autograd() -> None:
    """Central differences on 10 coordinates of a two-layer network."""
    spec = spec_of(numerics="fp64", model=Choice("mlp", {"hidden": (5,)}))
    model = synthetic_model(spec)
    start = model.initial(3, "mnist5k", torch.float64)[None]
    images = TASK.train.batch(torch.tensor(BATCHES[0]))
    labels = TASK.train.labels[BATCHES[0]]
    step = (start - local_phase(model, TASK.train, work_of(start, BATCHES[:1]))) / LR
    for index in range(0, model.size, model.size // 10):
        losses = []
        for sign in (1, -1):
            moved = start[0].clone()
            moved[index] += sign * 1e-6
            losses.append(torch.nn.functional.cross_entropy(model.logits(moved, images), labels))
        slope = (losses[0] - losses[1]) / 2e-6
        assert float(step[0, index]) == pytest.approx(float(slope), abs=1e-8)
