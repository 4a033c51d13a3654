"""Keeping results after a change of code that is said to change no number, once a sample has shown it."""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fedrepro.errors import FedreproError
from fedrepro.plan.plan import Plan
from fedrepro.provenance import jobs
from fedrepro.provenance.code import closure
from fedrepro.provenance.files import json_bytes
from fedrepro.provenance.manifest import CellError, Planned, cell_spec, read_manifest, verify
from fedrepro.runtime.atomic import write_all


def reuse(plan: Plan, sample: int, snakemake: Sequence[str]) -> int:
    """Rerun a sample of the cells that only the code makes stale; if its numbers are the same, keep the rest.

    The sample takes one cell of every kind and plugin in turn. It runs through Snakemake, so on a cluster
    where the workflow does. Cells that are kept say so: ``reused`` in the manifest has the digest they were
    made with, the sample and the time. Snakemake is told as well, so that it plans nothing for them.

    Parameters
    ----------
    sample : int >= 1
        Cells to rerun.
    snakemake : sequence of str
        Arguments for Snakemake: the configuration, and how to run (cores, profile).

    Returns
    -------
    int
        0, or 1 where a cell of the sample has other numbers; then nothing is kept.

    Raises
    ------
    FedreproError
        If Snakemake fails.
    """
    stale = stale_by_code(plan)
    if not stale:
        print("no cell is stale because of its code alone; there is nothing to keep")
        return 0
    chosen = draw_sample(plan, list(stale), sample)
    print(f"{len(stale)} cells are stale because of their code; running {len(chosen)} of them again")
    before = {cell: stale[cell]["metrics"]["sha256"] for cell in chosen}
    manifests = [str(plan.cell_folder(cell) / "manifest.json") for cell in chosen]
    shared = [path for cell in stale for path in plan.cells[cell].inputs.values()]
    _run(snakemake, [*manifests, *dict.fromkeys(shared)])
    changed = [c for c in chosen if read_manifest(plan.cell_folder(c))["metrics"]["sha256"] != before[c]]
    if changed:
        names = "\n  ".join(changed)
        print(
            f"{len(changed)} of {len(chosen)} have other numbers; nothing is kept:\n  {names}",
            file=sys.stderr,
        )
        return 1
    left = stale_by_code(plan)
    kept = {cell: manifest for cell, manifest in left.items() if _holds(plan, cell, manifest)}
    for cell, manifest in kept.items():
        _restamp(plan, cell, manifest, chosen)
    _run([*snakemake, "--touch"], [str(plan.cell_folder(cell) / "manifest.json") for cell in kept])
    print(f"all {len(chosen)} have the same bytes; {len(kept)} others are kept")
    return 0


def stale_by_code(plan: Plan) -> dict[str, dict[str, Any]]:
    """Manifests of the cells that are as planned in specification and input files, but not in code."""
    found = {}
    for cell, job in plan.cells.items():
        try:
            manifest = read_manifest(plan.cell_folder(cell))
        except CellError:
            continue
        inputs = {name: entry["path"] for name, entry in manifest["inputs"].items()}
        same = manifest["canonical"] == job.spec and inputs == dict(job.inputs)
        if same and manifest["code"] != job.code:
            found[cell] = manifest
    return found


def draw_sample(plan: Plan, cells: Sequence[str], size: int) -> list[str]:
    """``size`` of the cells at random, the same for the same cells; one of each kind and plugin in turn."""
    seed = hashlib.sha256("\n".join(sorted(cells)).encode()).digest()[:8]
    order = np.random.Generator(np.random.Philox(int.from_bytes(seed, "little"))).permutation(len(cells))
    groups: dict[str, list[str]] = {}
    for position in order:
        cell = cells[position]
        names = [
            name for kind, name in jobs.plugins(cell_spec(cell, plan.cells[cell].spec)) if kind != "dataset"
        ]
        groups.setdefault(f"{plan.cells[cell].step} {' '.join(names)}", []).append(cell)
    ranked = [(turn, group, cell) for group, part in groups.items() for turn, cell in enumerate(part)]
    return [cell for _, _, cell in sorted(ranked)[:size]]


def _holds(plan: Plan, cell: str, manifest: dict[str, Any]) -> bool:
    """Whether only its code stands against a cell, now that Snakemake has made its inputs where needed."""
    job = plan.cells[cell]
    try:
        verify(plan.cell_folder(cell), Planned(job.spec, manifest["code"], job.inputs))
    except CellError:
        return False
    return True


def _restamp(plan: Plan, cell: str, manifest: dict[str, Any], sample: Sequence[str]) -> None:
    job = plan.cells[cell]
    modules = closure(jobs.modules(job.step, cell_spec(cell, job.spec)))
    reused = {
        "code": manifest["code"],
        "verified": list(sample),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "before": manifest.get("reused"),
    }
    content = manifest | {"code": job.code, "modules": modules, "reused": reused}
    write_all({plan.cell_folder(cell) / "manifest.json": json_bytes(content)})


def _run(arguments: Sequence[str], targets: Sequence[str]) -> None:
    command = [sys.executable, "-m", "snakemake", *targets, *arguments]
    if subprocess.run(command, check=False).returncode:
        raise FedreproError("snakemake failed (its messages stand above); nothing was kept")
