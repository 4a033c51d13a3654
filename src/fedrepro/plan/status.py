"""What has been done: a quick look at manifests, and a full check of every cell."""

import json
import sys
from collections import Counter
from pathlib import Path

from fedrepro.plan.plan import Plan
from fedrepro.provenance.manifest import CellError, Planned, read_manifest, verify


def cell_state(plan: Plan, cell: str) -> str:
    """``done``, ``diverged``, ``stale``, ``missing`` or ``invalid``, from the manifest alone."""
    job = plan.cells[cell]
    try:
        manifest = read_manifest(plan.cell_folder(cell))
    except CellError as error:
        return error.kind
    if manifest["canonical"] != job.spec:
        return "invalid"
    if manifest["code"] != job.code:
        return "stale"
    return "diverged" if manifest["status"] == "diverged" else "done"


def print_status(plan: Plan) -> None:
    """Per target, how many of its cells are in which state."""
    states = {cell: cell_state(plan, cell) for cell in plan.cells}
    columns = ("done", "diverged", "stale", "invalid", "missing")
    print(f"{'target':<24}" + "".join(f"{name:>10}" for name in columns) + f"{'made':>8}")
    for target in plan.targets.values():
        cells = {cell for need in target.needs for cell in plan.experiments[need].cells}
        counts = Counter(states[cell] for cell in cells)
        suffix = "pdf" if target.kind == "figure" else "csv"
        made = Path(plan.out, f"{target.kind}s", f"{target.name}.{suffix}").exists()
        line = "".join(f"{counts[name]:>10}" for name in columns)
        print(f"{target.name:<24}{line}{'yes' if made else 'no':>8}")
    seconds = sum(
        json.loads(plan.cell_folder(cell).joinpath("manifest.json").read_text())["seconds"]
        for cell, state in states.items()
        if state in ("done", "diverged")
    )
    print(f"\n{Counter(states.values())['done']} of {len(states)} cells done, {seconds:.0f} s of work")


def print_verification(plan: Plan) -> int:
    """Check every cell that exists; returns 1 where one may not be published."""
    counts: Counter[str] = Counter()
    for cell, job in plan.cells.items():
        try:
            verify(plan.cell_folder(cell), Planned(job.spec, job.code, job.inputs))
            counts["verified"] += 1
        except CellError as error:
            counts[error.kind] += 1
            if error.kind != "missing":
                print(f"{cell}: {error.kind}: {error}", file=sys.stderr)
    print(", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())))
    return int(bool(counts["stale"] or counts["invalid"]))
