"""Running one job of the workflow: check who we are, run the entry module, write everything or nothing."""

import importlib
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from fedrepro.core.job import Context, Inputs, Result
from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.core.spec import build
from fedrepro.errors import FedreproError
from fedrepro.provenance import jobs
from fedrepro.provenance.archives import Published, digest
from fedrepro.provenance.code import closure, code_digest
from fedrepro.provenance.environment import environment, site
from fedrepro.provenance.files import checked, describe, json_bytes, read_json, sidecar_path
from fedrepro.provenance.header import resolved
from fedrepro.provenance.manifest import SCHEMA_VERSION
from fedrepro.runtime import device
from fedrepro.runtime.allocator import keep_memory
from fedrepro.runtime.atomic import remove_leftovers, write_all
from fedrepro.runtime.meter import meter

ROOT = PACKAGE_ROOT.parents[1]
DECODERS = 8  # processes that prepare images; one reads for all of them, and cannot feed more
KERNELS = "results/.cache/numba"  # compiled kernels, one folder per code digest


def execute(
    step: str,
    spec_json: str,
    code: str,
    inputs: Mapping[str, Path],
    outputs: Mapping[str, Path],
    threads: int = 1,
) -> None:
    """Run a job and write its outputs.

    Parameters
    ----------
    step : str
        ``prepare``, ``partition``, ``trace`` or a kind of cell.
    spec_json : str
        Canonical JSON of the job's specification.
    code : str
        Digest of the code the workflow planned the job with.
    inputs, outputs : mapping of str to Path
        By name. Cells write ``metrics`` and ``manifest``; other files get a sidecar.
    threads : int
        Threads the job may use.

    Raises
    ------
    FedreproError
        If the code on disk is not the planned one, an input does not match its sidecar, or an output
        cannot be written.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    job = jobs.JOBS[step]
    spec: Any = build(job.spec, json.loads(spec_json))
    modules = closure(jobs.modules(step, spec))
    check_code(code, code_digest(modules))
    hashes = {name: _checked(step, spec, name, path) for name, path in inputs.items()}
    for path in outputs.values():
        remove_leftovers(path)
    _keep_kernels(Path(KERNELS, code))
    place = device.choose() if step == "train" else "cpu"
    if step == "train":
        keep_memory()
    entry = importlib.import_module(job.entry)
    if "manifest" not in outputs:
        write_all(_with_sidecars(_run(step, entry, spec, inputs, threads), outputs))
        return
    folder = outputs["manifest"].parent
    if step == "train":
        identity = {"cell": folder.name, "code": code, "inputs": hashes}
        result, attempts = _train(entry, spec, inputs, place, checkpoint_folder(folder), identity)
    else:
        result, attempts = _run(step, entry, spec, inputs, threads), 1
    metrics = result.files["metrics"]
    manifest = {
        "schema": SCHEMA_VERSION,
        "cell": folder.name,
        "spec": resolved(spec),
        "canonical": spec_json,
        "code": code,
        "modules": modules,
        "inputs": {name: {"path": str(inputs[name]), "sha256": hashes[name]} for name in inputs},
        "metrics": describe(*metrics),
        "status": result.status,
        "attempts": attempts,
        "environment": environment(ROOT, place),
        "site": site(),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 3),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    write_all({outputs["metrics"]: metrics.content, outputs["manifest"]: json_bytes(manifest)})
    shutil.rmtree(checkpoint_folder(folder), ignore_errors=True)


def _keep_kernels(folder: Path) -> None:
    """Where compiled kernels are kept; Numba reads it once, when it is imported."""
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)


def checkpoint_folder(cell: Path) -> Path:
    """Where the checkpoints of a cell's folder are."""
    return cell.parents[1] / ".checkpoints" / cell.name


def check_code(planned: str, found: str) -> None:
    """Refuse to run code other than the workflow's own, or other than the workflow planned with."""
    workflow = os.environ.get("FEDREPRO_WORKFLOW")
    if workflow and Path(workflow, "src", "fedrepro").resolve() != PACKAGE_ROOT.resolve():
        raise FedreproError(
            f"fedrepro was imported from {PACKAGE_ROOT}, but the workflow is {workflow}; "
            "put the workflow's src folder first on PYTHONPATH"
        )
    if planned != found:
        raise FedreproError(
            f"the code changed after this job was planned (planned {planned}, on disk {found}); "
            "run snakemake again"
        )


def _train(
    entry: ModuleType, spec: Any, inputs: Inputs, place: str, folder: Path, identity: Mapping[str, Any]
) -> tuple[Result, int]:
    """Run a training cell, from its last checkpoint where there is one; also counts the attempts."""
    from fedrepro.runtime.checkpoint import Attempts, Checkpoints
    from fedrepro.runtime.progress import ProgressLog

    identity = {**identity, "environment": environment(ROOT, place)}
    attempts = Attempts(folder, identity)
    number = attempts.begin()
    keeper = Checkpoints(folder, identity, place)
    try:
        with keeper.listening():
            return entry.run(spec, inputs, Context(place, 1, ProgressLog(sys.stderr), keeper)), number
    except Exception as error:
        attempts.failed(keeper.completed, error)
        raise


def _checked(step: str, spec: Any, name: str, path: Path) -> str:
    if step != "prepare":
        return checked(path)
    sidecar, checksum = read_json(sidecar_path(path)), spec.archives[name]
    try:
        fault = digest(path, checksum).fault(Published(sidecar.get("bytes", 0), checksum))
    except FileNotFoundError:
        fault = "it is missing"
    if not fault:
        return str(sidecar["sha256"])
    path.unlink(missing_ok=True)
    sidecar_path(path).unlink()  # so that the workflow downloads it again
    raise FedreproError(f"{path} is not the published file: {fault}. Run snakemake again to download it")


def _run(step: str, entry: ModuleType, spec: Any, inputs: Inputs, threads: int) -> Result:
    """Run a job that keeps nothing for a later attempt."""
    if step != "prepare":
        return entry.run(spec, inputs, Context(threads=threads))
    with meter(f"prepare {spec.dataset}") as observe:
        return entry.run(spec, inputs, Context(threads=min(device.cores(), DECODERS), observe=observe))


def _with_sidecars(result: Result, outputs: Mapping[str, Path]) -> dict[Path, bytes]:
    contents: dict[Path, bytes] = {}
    for name, artifact in result.files.items():
        contents[outputs[name]] = artifact.content
        contents[sidecar_path(outputs[name])] = json_bytes(describe(*artifact))
    return contents
