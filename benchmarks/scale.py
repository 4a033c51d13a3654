"""How planning and collecting grow: dry runs, runs with nothing to do, and collecting, on synthetic results.

    python -m benchmarks.scale

A copy of the workflow in a temporary folder is filled with files of the right form and no meaning: their
manifests have the status ``synthetic``, which collecting refuses. Times are processor seconds of whole
commands, which use one core; they stand in results/bench/scale.json beside their limits.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.core.spec import TrainSpec
from fedrepro.core.tables import TRAIN_METRICS, encode, from_rows
from fedrepro.outputs import collect
from fedrepro.plan.builder import Job
from fedrepro.plan.listing import load
from fedrepro.plan.plan import Plan
from fedrepro.provenance import manifest as manifests
from fedrepro.provenance.code import closure
from fedrepro.provenance.files import describe
from fedrepro.provenance.header import header, resolved
from fedrepro.provenance.jobs import modules
from fedrepro.provenance.manifest import cell_spec, expected_rows

ROOT = PACKAGE_ROOT.parents[1]
PARTS = ("Snakefile", "workflow", "profiles", "config", "src", "envs")
REPEATS = 3
MANY_SEEDS = 32  # of the paper tier: about 10,000 cells
SYNTHETIC = "synthetic"
BIG = 2**20  # bytes of what stands for a big file


def main() -> None:
    """Measure, print and write all figures."""
    figures: dict[str, tuple[float, float]] = {}

    def note(key: str, value: float, limit: float) -> None:
        figures[key] = value, limit
        print(f"{key:<32}{value:>8.2f}  {'within' if value <= limit else 'ABOVE'} {limit:g}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "workflow")
        copy(folder)
        os.chdir(folder)
        note("paper tier, dry run, s", timed("-n", "--config", "tier=paper"), 5.0)
        plan = load(folder, ["tier=paper"], [])
        fill(plan)
        snakemake("--touch", "--forceall", "--config", "tier=paper")
        note("paper tier, nothing to do, s", timed("-n", "--config", "tier=paper"), 3.0)
        Path("many.yaml").write_text(f"tier: paper\nseeds: {list(range(MANY_SEEDS))}\n")
        many = load(folder, [], [Path("many.yaml")])
        note(f"{len(many.cells):,} cells, dry run, s", timed("-n", "--configfile", "many.yaml"), 30.0)
        seconds, memory = collected(many)
        note("collect 1,000 cells, s", seconds, 20.0)
        note("collect 1,000 cells, MB", memory, 1000.0)
        os.chdir(ROOT)
    out = ROOT / "results/bench/scale.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    content = {key: {"value": value, "limit": limit} for key, (value, limit) in figures.items()}
    out.write_text(json.dumps(content, indent=1) + "\n")


def copy(folder: Path) -> None:
    """Copy what makes a workflow."""
    folder.mkdir()
    for part in PARTS:
        source, target = ROOT / part, folder / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def snakemake(*arguments: str) -> None:
    """Run Snakemake in the copy, without its progress bar."""
    command = [sys.executable, "-m", "snakemake", "-c1", "--workflow-profile", "none", "--quiet", "all"]
    environment = os.environ | {"PYTHONPATH": "src"}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def timed(*arguments: str) -> float:
    """Processor seconds of a Snakemake command, the least of some repeats."""
    seconds = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        snakemake(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def fill(plan: Plan) -> None:
    """Write every file of a plan."""
    shared = [*plan.partitions.values(), *plan.traces.values(), *plan.cells.values()]
    big = {path for job in shared for path in job.inputs.values()}
    for path in map(Path, big):
        write(path, b"\0" * BIG)
        write(Path(f"{path}.json"), json.dumps(describe(b"\0" * BIG, 1)).encode())
    for job in plan.datasets.values():
        for path in job.inputs.values():
            write(Path(f"{path}.json"), b"{}")
    for cell, job in plan.cells.items():
        write_cell(plan, cell, job, {})
    for name in plan.experiments:
        for suffix in ("parquet", "parquet.json", "cells.json"):
            write(Path(plan.out, "collected", f"{name}.{suffix}"), b"{}")
    for target in plan.targets.values():
        for path in target.outputs(plan.out).values():
            write(Path(path), b"")
    write(Path(plan.out, "report", "index.html"), b"")


def write_cell(plan: Plan, cell: str, job: Job, hashes: Mapping[str, str]) -> None:
    """A cell of random numbers, as many as its run would write; its manifest says that it is synthetic."""
    spec = cell_spec(cell, job.spec)
    content = metrics(spec) if hashes else b""
    found = {
        "schema": manifests.SCHEMA_VERSION, "cell": cell, "spec": resolved(spec), "canonical": job.spec,
        "code": job.code, "modules": closure(modules(job.step, spec)),
        "inputs": {name: {"path": path, "sha256": hashes.get(path, "")} for name, path in job.inputs.items()},
        "metrics": describe(content, 0), "status": SYNTHETIC, "attempts": 1, "environment": {}, "site": {},
        "started": "", "seconds": 0.0, "peak_memory_bytes": 0,
    }  # fmt: skip
    write(plan.cell_folder(cell) / "metrics.parquet", content)
    write(plan.cell_folder(cell) / "manifest.json", json.dumps(found).encode())


def metrics(spec: TrainSpec) -> bytes:
    """A table of the size that a training cell writes."""
    number = expected_rows(spec) or 0
    values = np.random.Generator(np.random.Philox(1)).random((number, 2))
    models = header("algorithm", spec.algorithm.name).constant("EVALUATED", ("server",))
    rows = [
        {"round": n, "evaluated": models[n % len(models)], "split": "test", "loss": float(loss),
         "accuracy": float(accuracy), "consensus_error": None, "active": 10}
        for n, (loss, accuracy) in enumerate(values)
    ]  # fmt: skip
    return encode(from_rows(rows, TRAIN_METRICS))


def collected(plan: Plan) -> tuple[float, float]:
    """Processor seconds and peak memory (MB) of collecting 1,000 training cells, in a process of its own."""
    cells = dict(list(training(plan))[:1000])
    hashes = {}
    for path in {path for job in cells.values() for path in job.inputs.values()}:
        content = path.encode()
        write(Path(path), content)
        write(Path(f"{path}.json"), json.dumps(describe(content, 1)).encode())
        hashes[path] = describe(content, 1)["sha256"]
    for cell, job in cells.items():
        write_cell(plan, cell, job, hashes)
    facts = [
        {"cell": cell, "paper_dataset": None, "reading": None, "canonical": job.spec, "code": job.code,
         "inputs": dict(job.inputs)}
        for cell, job in cells.items()
    ]  # fmt: skip
    planned = {"experiment": "scale", "tier": "paper", "where": "", "published": False, "cells": facts}
    write(Path("scale.json"), json.dumps(planned).encode())
    child = os.fork()
    if not child:
        manifests.STATUSES = (*manifests.STATUSES, SYNTHETIC)  # here alone it may be collected
        out = Path("scale.parquet")
        collect.collect(Path("scale.json"), Path(plan.out, "cells"), out, "refuse", "refuse")
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit("collecting failed")
    assert isinstance(usage, resource.struct_rusage)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def training(plan: Plan) -> Iterator[tuple[str, Any]]:
    """The training cells of a plan."""
    return ((cell, job) for cell, job in plan.cells.items() if job.step == "train")


def write(path: Path, content: bytes) -> None:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main()
