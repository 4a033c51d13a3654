"""The batched backend equals the loop over clients, in every design."""

from typing import Any

import numpy as np
import pytest
import torch

from fedrepro.core.cohort import DESIGNS, CohortPhase, Design
from fedrepro.core.local import LocalSteps, local_phase
from fedrepro.core.minibatches import Sampler
from fedrepro.core.spec import Choice, TrainSpec
from tests.helpers import run_engine, spec_of, synthetic_model, synthetic_task, trace_of

CNN = Choice("cnn", {"channels": (3, 16), "hidden": (7,)})
DROPOUT = Choice("cnn", {"channels": (3,), "hidden": (7, 5), "dropout": 0.3})
MLP = Choice("mlp", {"hidden": (6,)})
SHAPE = (8, 8, 3)
OWNER = np.repeat(np.arange(4, dtype=np.int32), (17, 12, 8, 3))  # the last one has fewer than a batch of 5
CASES: dict[str, dict[str, Any]] = {
    "cnn": {"model": CNN},
    "mlp": {"model": MLP},
    "clipped": {"model": CNN, "clip": "local_grad", "clip_norm": 0.05},
    "crop and flip per batch": {"model": CNN, "crop": 2, "flip": True},
    "crop and flip per image": {"model": CNN, "crop": 2, "flip": True, "augment_per": "image"},
    "flip alone": {"model": MLP, "flip": True},
    "dropout": {"model": DROPOUT, "crop": 1},
}


def work_of(spec: TrainSpec, clients: list[int]) -> tuple[Any, Any, LocalSteps]:
    """Model, training split and the local steps of some clients, each from weights of its own."""
    task = synthetic_task(spec, trace_of([0, 1, 2, 3]), shape=SHAPE)
    model = synthetic_model(spec, SHAPE)
    start = torch.stack([model.initial(seed, "mnist5k", torch.float64) for seed in clients])
    draws = Sampler(OWNER, task.active, spec).draw(np.array(clients), 0)
    clip = spec.clip_norm if spec.clip == "local_grad" else None
    return model, task.train, LocalSteps(start, draws, spec.local_lr, clip, spec.crop)


@pytest.mark.parametrize("clients", [[0, 1, 2, 3], [2], [3]], ids=str)
@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_equals_the_loop(design: Design, changes: dict[str, Any], clients: list[int]) -> None:
    """In float64, where nothing but the order of sums differs."""
    spec = spec_of(numerics="fp64", local_steps=3, local_lr=0.3, **changes)
    model, train, work = work_of(spec, clients)
    expected = local_phase(model, train, work)
    found = CohortPhase(design)(model, train, work)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
    assert (expected - work.start).norm() > 1e-3


def test_augmentation_and_dropout_change_the_result() -> None:
    """Or their agreement would say little."""
    results = []
    for changes in CASES.values():
        if changes["model"] in (CNN, DROPOUT):
            spec = spec_of(numerics="fp64", local_steps=3, local_lr=0.3, **changes)
            results.append(local_phase(*work_of(spec, [0])))
    spec = spec_of(numerics="fp64", local_steps=3, local_lr=0.3, model=DROPOUT)
    results.append(local_phase(*work_of(spec, [0])))
    for i, one in enumerate(results):
        for other in results[i + 1 :]:
            assert one.shape != other.shape or (one - other).abs().max() > 1e-6


@pytest.mark.parametrize("design", DESIGNS)
def test_an_empty_cohort_and_purity(design: Design) -> None:
    spec = spec_of(numerics="fp64", model=CNN)
    model, train, work = work_of(spec, [1, 2])
    before = work.start.clone()
    first = CohortPhase(design)(model, train, work)
    assert torch.equal(first, CohortPhase(design)(model, train, work))
    assert torch.equal(work.start, before)
    none = work._replace(start=work.start[:0], draws=work.draws.rows(slice(0, 0)))
    assert CohortPhase(design)(model, train, none).shape == (0, model.size)


@pytest.mark.parametrize("name", ["fedavg_active", "fedswe", "fedvarp"])
def test_whole_runs_agree(name: str) -> None:
    """Four rounds, one of them empty and one of a single client, from partition to metrics."""
    spec = spec_of(numerics="fp64", algorithm=Choice(name), model=DROPOUT, crop=1, flip=True)
    task = synthetic_task(spec, trace_of([0, 1, 2, 3], [], [2], [0, 3]), shape=SHAPE)
    loop, batched = (run_engine(spec, task, phase).metrics for phase in (local_phase, CohortPhase()))
    for ours, theirs in zip(loop.to_pylist(), batched.to_pylist(), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("design", DESIGNS)
def test_bf16_is_near_float32(design: Design) -> None:
    """Products in bf16 keep 8 bits: updates of one step differ by a few per cent, and do differ."""
    deltas = {}
    for numerics in ("fp32", "bf16"):
        spec = spec_of(numerics=numerics, local_steps=1, local_lr=0.3, model=CNN)
        task = synthetic_task(spec, trace_of([0, 1, 2, 3]), shape=SHAPE)
        model = synthetic_model(spec, SHAPE)
        start = model.initial(3, "mnist5k", torch.float32).expand(4, -1)
        draws = Sampler(OWNER, task.active, spec).draw(np.arange(4), 0)
        trained = CohortPhase(design)(model, task.train, LocalSteps(start, draws, 0.3, None, 0))
        assert trained.dtype == torch.float32
        deltas[numerics] = trained - start
    ratio = float((deltas["bf16"] - deltas["fp32"]).norm() / deltas["fp32"].norm())
    assert 1e-4 < ratio < 0.15
