"""Small specifications, tasks and files that the tests share.

Synthetic tasks are a few hand-sized images: fast, and small enough for an independent float64 loop.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fedrepro.cells import train as train_cell
from fedrepro.core import engine, registry
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.data import Split
from fedrepro.core.engine import Keeper, Task
from fedrepro.core.job import Context, bind
from fedrepro.core.local import LocalPhase, local_phase
from fedrepro.core.model import Model
from fedrepro.core.numerics import COMPUTE, STORAGE
from fedrepro.core.spec import (
    Choice,
    Evaluation,
    Partition,
    PartitionSpec,
    TraceSpec,
    TrainSpec,
)
from fedrepro.core.tables import TRAIN_METRICS, from_rows
from fedrepro.inputs import partition, prepare, trace
from fedrepro.plan.cards import prepare_spec
from fedrepro.provenance import jobs
from fedrepro.provenance.code import closure, code_digest
from fedrepro.provenance.files import describe, sidecar_path
from fedrepro.provenance.header import resolved
from fedrepro.provenance.identity import canonical_json, cell_id, dumps
from fedrepro.provenance.manifest import SCHEMA_VERSION, Planned

ROOT = registry.PACKAGE_ROOT.parents[1]
SRC = registry.PACKAGE_ROOT.parent

SHAPE = (4, 4, 1)  # images of a synthetic task
CLASSES = 3

SPEC = TrainSpec(
    dataset="mnist5k",
    seed=3,
    partition=Partition(clients=4, alpha=0.5),
    dynamics=Choice("stationary"),
    algorithm=Choice("fedavg_active"),
    model=Choice("mlp", {"hidden": ()}),
    rounds=4,
    local_steps=2,
    batch_size=5,
    local_lr=0.1,
    lr_schedule="inverse_sqrt",
    clip="none",
    evaluation=Evaluation(test_every=1, train_every=2, final_rounds=2, final_every=1),
)


def spec_of(**changes: Any) -> TrainSpec:
    """The small training specification with some fields changed."""
    return replace(SPEC, **changes)


def trace_of(*rounds: Sequence[int], clients: int = 4) -> NDArray[np.bool_]:
    """A trace (T, m) from the clients that are available in each round."""
    active = np.zeros((len(rounds), clients), dtype=np.bool_)
    for t, available in enumerate(rounds):
        active[t, list(available)] = True
    return active


def synthetic_task(
    spec: TrainSpec,
    active: NDArray[np.bool_] | None = None,
    samples: int = 40,
    tests: int = 15,
    shape: tuple[int, int, int] = SHAPE,
) -> Task:
    """Random images; clients take samples in turn; everybody available unless a trace is given."""
    rng = np.random.default_rng(7)

    def split(number: int) -> Split:
        images = torch.from_numpy(rng.integers(0, 256, (number, *shape), dtype=np.uint8))
        labels = torch.from_numpy(rng.integers(0, CLASSES, number))
        return Split(images, labels, *normalisation(spec, shape[2]))

    if active is None:
        active = np.ones((spec.rounds, spec.partition.clients), dtype=np.bool_)
    client = (np.arange(samples) % spec.partition.clients).astype(np.int32)
    return Task(split(samples), split(tests), client, active, np.full(active.shape, 0.5))


def normalisation(spec: TrainSpec, channels: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and shift that take pixels 0 and 255 to -2 and 2."""
    dtype = STORAGE[spec.numerics]
    return torch.full((channels,), 4 / 255, dtype=dtype), torch.full((channels,), -2.0, dtype=dtype)


def synthetic_model(spec: TrainSpec, shape: tuple[int, int, int] = SHAPE) -> Model:
    """The model of a specification, shaped for synthetic images."""
    plugin, params = bind("model", spec.model)
    return Model(plugin, shape, CLASSES, params, COMPUTE.get(spec.numerics))


class Finished(NamedTuple):
    """A run's metrics as the table that a cell writes, and its status."""

    metrics: pa.Table
    status: str


def run_engine(
    spec: TrainSpec,
    task: Task,
    phase: LocalPhase = local_phase,
    algorithm: Algorithm | None = None,
    observe: Callable[[engine.Progress], None] = lambda progress: None,
    keeper: Keeper | None = None,
) -> "Finished":
    """Run the federated loop on a synthetic task."""
    algorithm = algorithm or Algorithm(*bind("algorithm", spec.algorithm))
    height, width, channels = task.train.images.shape[1:]
    model = synthetic_model(spec, (height, width, channels))
    outcome = engine.run(spec, task, algorithm, model, phase, observe, keeper)
    return Finished(from_rows(outcome.rows, TRAIN_METRICS), outcome.status)


class Spy(Algorithm):
    """An algorithm that keeps its last state, and the server's weights after every round."""

    def __init__(self, spec: TrainSpec) -> None:
        super().__init__(*bind("algorithm", spec.algorithm))
        self.servers: list[torch.Tensor] = []
        self.state: dict[str, torch.Tensor] = {}

    def init(self, server: torch.Tensor, clients: int) -> dict[str, torch.Tensor]:
        self.state = super().init(server, clients)
        self.servers.append(self.state["server"].clone())
        return self.state

    def round(self, state: dict[str, torch.Tensor], cohort: Any, delta: torch.Tensor) -> None:
        super().round(state, cohort, delta)
        self.servers.append(state["server"].clone())


def prepare_files(folder: Path, dataset: str = "mnist5k") -> dict[str, Path]:
    """Both prepared splits of a data set, with sidecars."""
    result = prepare.run(prepare_spec(dataset), {}, Context())
    paths = {}
    for name, artifact in result.files.items():
        paths[name] = write_with_sidecar(folder / f"{name}.npy", artifact.content, artifact.rows)
    return paths


def shared_inputs(spec: TrainSpec, prepared: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """The four input files of a training cell, with sidecars; made in ``folder``."""
    inputs = dict(prepared)
    shared = PartitionSpec(spec.dataset, spec.seed, spec.partition)
    artifact = partition.run(shared, inputs, Context()).files["partition"]
    inputs["partition"] = write_with_sidecar(folder / "partition.parquet", *artifact)
    traced = TraceSpec(spec.dataset, spec.seed, spec.partition, spec.dynamics, spec.rounds)
    artifact = trace.run(traced, inputs, Context()).files["trace"]
    inputs["trace"] = write_with_sidecar(folder / "trace.parquet", *artifact)
    return inputs


@dataclass(frozen=True)
class FinishedCell:
    """A training cell on disk, what the plan expects of it, and how it was specified."""

    folder: Path
    planned: Planned
    spec: TrainSpec

    def manifest(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return value

    def rewrite(self, **changes: Any) -> None:
        """Replace keys of the manifest."""
        (self.folder / "manifest.json").write_text(dumps(self.manifest() | changes))

    def replace_metrics(self, content: bytes) -> None:
        """Other metrics, with a manifest that vouches for them."""
        (self.folder / "metrics.parquet").write_bytes(content)
        self.rewrite(metrics=describe(content, 0))


def finish_cell(
    spec: TrainSpec, inputs: Mapping[str, Path], cells: Path, environment: str = "here"
) -> FinishedCell:
    """Run a training cell and write what the workflow would leave behind."""
    result = train_cell.run(spec, inputs, Context())
    content, rows = result.files["metrics"]
    modules = closure(jobs.modules("train", spec))
    folder = cells / cell_id(spec)
    folder.mkdir(parents=True)
    manifest = {
        "schema": SCHEMA_VERSION,
        "cell": folder.name,
        "spec": resolved(spec),
        "canonical": canonical_json(spec),
        "code": code_digest(modules),
        "modules": modules,
        "inputs": {
            name: {"path": str(path), "sha256": describe(path.read_bytes(), 0)["sha256"]}
            for name, path in inputs.items()
        },
        "metrics": describe(content, rows),
        "status": result.status,
        "attempts": 1,
        "environment": {"system": environment},
        "site": {},
        "started": "2020-01-01T00:00:00+00:00",
        "seconds": 1.0,
        "peak_memory_bytes": 1,
    }
    (folder / "metrics.parquet").write_bytes(content)
    (folder / "manifest.json").write_text(dumps(manifest))
    paths = {name: str(path) for name, path in inputs.items()}
    return FinishedCell(folder, Planned(canonical_json(spec), code_digest(modules), paths), spec)


def python(code: str, *arguments: str | Path, source: Path = SRC) -> str:
    """Standard output of a fresh Python that runs ``code`` with the package on its path."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_with_sidecar(path: Path, content: bytes, rows: int) -> Path:
    """Write a big file as the workflow does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    sidecar_path(path).write_text(dumps(describe(content, rows)))
    return path
