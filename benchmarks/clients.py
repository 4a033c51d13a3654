"""How a run grows with the number of clients: memory, time of a round, size of a checkpoint and a trace.

    python -m benchmarks.clients

Random images of MNIST's size, a network of one hidden layer (d = 50,890), ten available clients a round
whatever their total, so that local training costs the same and what is left is the server's. Writes
results/bench/clients.json.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from fedrepro.core import engine
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.cohort import CohortPhase
from fedrepro.core.data import Split
from fedrepro.core.engine import Progress, Task
from fedrepro.core.job import bind
from fedrepro.core.model import Model
from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.core.spec import Choice, Evaluation, Partition, TrainSpec
from fedrepro.core.tables import TRACE, encode

ROOT = PACKAGE_ROOT.parents[1]
CLIENTS = (100, 1000, 10_000)
ALGORITHMS = ("fedavg_active", "mifa", "fedswe")
ROUNDS, AVAILABLE, IMAGES = 20, 10, 20  # rounds; clients a round; images of a client
SHAPE, CLASSES = (28, 28, 1), 10


def main() -> None:
    """Measure every pair in a process of its own; print and write all figures."""
    rows = []
    for algorithm in ALGORITHMS:
        for clients in CLIENTS:
            rows.append(in_child(algorithm, clients))
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    out = ROOT / "results/bench/clients.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")


def in_child(algorithm: str, clients: int) -> dict[str, Any]:
    """One run, and the peak memory of the process that did it."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, json.dumps(measure(algorithm, clients)).encode())
        os._exit(0)
    os.close(write)
    found = json.loads(os.fdopen(read, "rb").read())
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{algorithm} with {clients} clients failed")
    return {"algorithm": algorithm, "clients": clients, "peak_mb": usage.ru_maxrss // 1024, **found}


def measure(algorithm: str, clients: int) -> dict[str, Any]:
    """Seconds of a round, megabytes of the state and of the trace."""
    torch.set_num_threads(1)
    spec = TrainSpec(
        dataset="mnist", seed=1, partition=Partition(clients, 1.0), dynamics=Choice("stationary"),
        algorithm=Choice(algorithm), model=Choice("mlp", {"hidden": (64,)}), rounds=ROUNDS, local_steps=5,
        batch_size=10, local_lr=0.05, lr_schedule="constant", clip="none",
        evaluation=Evaluation(10**6, 10**6, 0, 1),
    )  # fmt: skip
    rng = np.random.Generator(np.random.Philox(1))
    active = np.zeros((ROUNDS, clients), dtype=np.bool_)
    for row in active:
        row[rng.choice(clients, AVAILABLE, replace=False)] = True
    probability = np.full(active.shape, AVAILABLE / clients)
    owner = (np.arange(clients * IMAGES) % clients).astype(np.int32)
    task = Task(split(rng, clients * IMAGES), split(rng, 100), owner, active, probability)
    model = Model(bind("model", spec.model)[0], SHAPE, CLASSES, bind("model", spec.model)[1])
    times: list[float] = []
    plugin = Spy(*bind("algorithm", spec.algorithm))

    def observe(progress: Progress) -> None:
        times.append(time.perf_counter())

    engine.run(spec, task, plugin, model, CohortPhase(), observe)
    columns = {
        "client": np.repeat(np.arange(clients), ROUNDS), "round": np.tile(np.arange(ROUNDS), clients),
        "probability": probability.T.ravel(), "active": active.T.ravel(),
    }  # fmt: skip
    trace = encode(pa.table(columns).cast(TRACE))
    return {
        "round_ms": round(1000 * float(np.median(np.diff(times)[1:])), 1),
        "state_mb": round(sum(t.numel() * t.element_size() for t in plugin.state.values()) / 1e6, 1),
        "trace_bytes_per_client_round": round(len(trace) / active.size, 2),
    }


class Spy(Algorithm):
    """An algorithm whose state can be looked at."""

    state: Mapping[str, torch.Tensor]

    def init(self, server: torch.Tensor, clients: int) -> dict[str, torch.Tensor]:
        """State before round 0, remembered."""
        self.state = super().init(server, clients)
        return dict(self.state)


def split(rng: np.random.Generator, images: int) -> Split:
    """Random images."""
    pixels = torch.from_numpy(rng.integers(0, 256, (images, *SHAPE), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(0, CLASSES, images))
    return Split(pixels, labels, torch.full((1,), 1 / 64), torch.full((1,), -2.0))


if __name__ == "__main__":
    main()
