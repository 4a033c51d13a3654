"""fedrepro's engine on the benchmark's workload: ``python -m benchmarks.ours``; the driver runs two."""

from types import ModuleType

import numpy as np
import torch

from benchmarks import workload
from fedrepro.algorithms import fedavg_active
from fedrepro.core import engine
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.data import tensors
from fedrepro.core.local import local_phase
from fedrepro.core.model import Model
from fedrepro.core.prepared import pack
from fedrepro.core.spec import Choice, Evaluation, Partition, TrainSpec
from fedrepro.models import cnn

SPEC = TrainSpec(
    dataset="svhn_like",
    seed=0,
    partition=Partition(clients=workload.CLIENTS, alpha=1.0),
    dynamics=Choice("fixed_cohorts"),
    algorithm=Choice("fedavg_active"),
    model=Choice("cnn"),
    rounds=workload.ROUNDS,
    local_steps=workload.LOCAL_STEPS,
    batch_size=workload.BATCH,
    local_lr=workload.LR,
    lr_schedule="constant",
    clip="local_grad",
    clip_norm=workload.CLIP_NORM,
    crop=workload.PADDING,
    evaluation=Evaluation(
        test_every=workload.ROUNDS, train_every=workload.ROUNDS, final_rounds=0, final_every=1
    ),
)


class Stop(Exception):  # noqa: N818 - no error: how an observer ends a run early
    """The clock says stop."""


def task() -> engine.Task:
    """The workload as the engine takes it; the test split is one batch, for nothing is evaluated in time."""
    dataset = ModuleType("svhn_like")
    vars(dataset).update(MEAN=workload.MEAN, STD=workload.STD)
    split = tensors(pack(workload.images(), workload.labels()), dataset, torch.float32)
    active = np.zeros((workload.ROUNDS, workload.CLIENTS), dtype=bool)
    np.put_along_axis(active, workload.cohorts(), True, axis=1)
    return engine.Task(
        train=split,
        test=split._replace(images=split.images[: workload.BATCH], labels=split.labels[: workload.BATCH]),
        client=np.repeat(np.arange(workload.CLIENTS, dtype=np.int32), workload.IMAGES),
        active=active,
        probability=np.full(active.shape, workload.COHORT / workload.CLIENTS),
    )


def main() -> None:
    """Run one cell until the clock says stop."""
    clock = workload.Clock(workload.arguments().parse_args())
    torch.set_num_threads(1)
    settings = {"crop": "one offset a batch", "allocator": workload.tune_allocator(), "layout": "NHWC"}

    def observe(progress: engine.Progress) -> None:
        if progress.completed and clock.tick():
            raise Stop

    model = Model(cnn, workload.SHAPE, workload.CLASSES, cnn.Params())
    try:
        engine.run(
            SPEC, task(), Algorithm(fedavg_active, fedavg_active.Params()), model, local_phase, observe
        )
    except Stop:
        clock.report(torch.get_num_threads(), settings)


if __name__ == "__main__":
    main()
