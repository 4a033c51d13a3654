"""Ten rounds of a training cell on random images: how long its work takes on this machine."""

import json
import resource
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.core.engine import Progress
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice, Evaluation, Partition, TrainSpec
from fedrepro.plan.work import TRAINING_PASSES, alike, mean_cohort
from fedrepro.provenance.files import read_json
from fedrepro.provenance.header import header
from fedrepro.runtime import device
from fedrepro.runtime.atomic import write_all

ROUNDS = 10  # timed; one before them warms up
CPU_COHORT = 4  # a CPU trains clients one after the other, or a small network in no time
TEST_IMAGES = 4096
FILE = Path("results/bench/probe.json")  # what was measured; delete it to measure again


@dataclass(frozen=True)
class Probe:
    """Seconds of a forward pass of one image, in training and in evaluation, and peak memory in MB."""

    device: str
    training: float
    evaluation: float
    memory_mb: float


def probes(specs: Iterable[TrainSpec]) -> dict[str, Probe]:
    """What is known of classes of cells (`fedrepro.plan.work.alike`), after measuring those of ``specs``."""
    known = {name: Probe(**facts) for name, facts in read_json(FILE).items()} if FILE.exists() else {}
    for spec in specs:
        name = alike(spec)
        if name not in known:
            print(f"ten rounds of {name} ...", flush=True)
            known[name] = run(spec)
            content = {key: asdict(found) for key, found in known.items()}
            write_all({FILE: (json.dumps(content, indent=1) + "\n").encode()})
    return known


def run(spec: TrainSpec) -> Probe:
    """Measure one class of cells, on the device that its cells would use."""
    import torch

    from fedrepro.core import engine, numerics
    from fedrepro.core.algorithm import Algorithm
    from fedrepro.core.cohort import suited_phase
    from fedrepro.core.data import Split
    from fedrepro.core.evaluation import evaluate
    from fedrepro.core.model import build_model

    place = device.choose()
    torch.set_num_threads(1)
    numerics.configure(spec.numerics, place)
    facts = header("dataset", spec.dataset)
    shape, classes = facts.constant("SHAPE"), facts.constant("CLASSES")
    clients = max(1, round(mean_cohort(spec)))
    clients = clients if place != "cpu" else min(clients, CPU_COHORT)
    dtype = numerics.STORAGE[spec.numerics]
    rng = np.random.Generator(np.random.Philox(1))

    def split(images: int) -> Split:
        scale = torch.full((shape[2],), 1 / 64, dtype=dtype)
        pixels = torch.from_numpy(rng.integers(0, 256, (images, *shape), dtype=np.uint8))
        labels = torch.from_numpy(rng.integers(0, classes, images))
        return Split(pixels, labels, scale, -2 * torch.ones_like(scale)).to(place)

    small = replace(
        spec,
        partition=Partition(clients, alpha=1.0),
        dynamics=Choice("stationary"),
        algorithm=Choice("fedavg_active"),
        rounds=ROUNDS + 1,
        evaluation=Evaluation(10 * ROUNDS, 10 * ROUNDS, 0, 1),
    )
    images = 2 * clients * spec.batch_size
    active = np.ones((small.rounds, clients), dtype=np.bool_)
    owner = (np.arange(images) % clients).astype(np.int32)
    task = engine.Task(split(images), split(8), owner, active, active.astype(float))
    model = build_model(spec)
    phase = suited_phase(model, place)
    times: dict[int, float] = {}

    def observe(progress: Progress) -> None:
        if place != "cpu":
            torch.cuda.synchronize()
        times[progress.completed] = time.perf_counter()

    engine.run(small, task, Algorithm(*bind("algorithm", small.algorithm)), model, phase, observe)
    passes = ROUNDS * clients * spec.local_steps * spec.batch_size * TRAINING_PASSES
    test, flat = split(TEST_IMAGES), model.initial(1, spec.dataset, dtype).to(place)
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        evaluate(model, flat, test)
        seconds.append(time.perf_counter() - started)
    name: Any = place if place == "cpu" else torch.cuda.get_device_name()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Probe(name, (times[small.rounds] - times[1]) / passes, min(seconds) / TEST_IMAGES, peak)
