"""What has been done: a quick look at manifests, and a full check of every cell."""

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from fedrepro.plan.plan import Plan
from fedrepro.provenance.manifest import CellError, Planned, read_manifest, verify


class State(NamedTuple):
    """``done``, ``diverged``, ``stale``, ``missing`` or ``invalid``, and the seconds of work that count."""

    name: str
    seconds: float = 0.0


def cell_state(plan: Plan, cell: str) -> State:
    """State of a cell, from its manifest alone."""
    job = plan.cells[cell]
    try:
        manifest = read_manifest(plan.cell_folder(cell))
    except CellError as error:
        return State(error.kind)
    if manifest["canonical"] != job.spec:
        return State("invalid")
    if manifest["code"] != job.code:
        return State("stale")
    return State("diverged" if manifest["status"] == "diverged" else "done", manifest["seconds"])


def print_status(plan: Plan) -> None:
    """Per target, how many of its cells are in which state."""
    states = {cell: cell_state(plan, cell) for cell in plan.cells}
    columns = ("done", "diverged", "stale", "invalid", "missing")
    print(f"{'target':<24}" + "".join(f"{name:>10}" for name in columns) + f"{'made':>8}")
    for target in plan.targets.values():
        cells = {cell for need in target.needs for cell in plan.experiments[need].cells}
        counts = Counter(states[cell].name for cell in cells)
        made = all(Path(path).exists() for path in target.outputs(plan.out).values())
        line = "".join(f"{counts[name]:>10}" for name in columns)
        print(f"{target.name:<24}{line}{'yes' if made else 'no':>8}")
    done = sum(state.name == "done" for state in states.values())
    seconds = sum(state.seconds for state in states.values())
    print(f"\n{done} of {len(states)} cells done, {seconds:.0f} s of work")


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
