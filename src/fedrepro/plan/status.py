"""What has been done: a quick look at manifests, and a full check of every cell."""

import re
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from fedrepro.plan.plan import Plan
from fedrepro.provenance.manifest import CellError, Planned, read_manifest, verify
from fedrepro.runtime.execute import checkpoint_folder

COLUMNS = ("done", "diverged", "running", "stale", "invalid", "missing")
PROGRESS = re.compile(r"^round (\d+)/(\d+)  \d+ s, (\d+) s left")
SILENT_SECONDS = 600.0  # a cell that has said nothing for so long is not believed to run


class State(NamedTuple):
    """One of `COLUMNS`; the seconds it took, or of one that runs, the seconds that it says are left."""

    name: str
    seconds: float = 0.0


def cell_state(plan: Plan, cell: str) -> State:
    """State of a cell: from its manifest, or the last line of its log while it runs."""
    job = plan.cells[cell]
    try:
        manifest = read_manifest(plan.cell_folder(cell))
    except CellError as error:
        left = seconds_left(plan, cell) if error.kind == "missing" else None
        return State(error.kind) if left is None else State("running", left)
    if manifest["canonical"] != job.spec:
        return State("invalid")
    if manifest["code"] != job.code:
        return State("stale")
    return State("diverged" if manifest["status"] == "diverged" else "done", manifest["seconds"])


def to_run(plan: Plan) -> list[str]:
    """The cells that the report needs and that are neither done nor diverged."""
    return [c for c in plan.reported_cells if cell_state(plan, c).name not in ("done", "diverged")]


def seconds_left(plan: Plan, cell: str) -> float | None:
    """What a training cell that is running says is left; None where none is running.

    It has been started and has not ended, its log ends in a line of progress, and that is not old. One that
    fails or is interrupted by a signal says so in its last line.
    """
    log = Path(plan.out, "logs", "cells", f"{cell}.log")
    try:
        age = time.time() - log.stat().st_mtime
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    said = PROGRESS.match(lines[-1]) if lines else None
    started = checkpoint_folder(plan.cell_folder(cell)).joinpath("attempts.json").exists()
    if said is None or not started or age > SILENT_SECONDS:
        return None
    return max(float(said[3]) - age, 0.0)


def print_status(plan: Plan) -> None:
    """Per target, how many of its cells are in which state, and when the running ones are done."""
    states = {cell: cell_state(plan, cell) for cell in plan.cells}
    print(f"{'target':<24}" + "".join(f"{name:>10}" for name in COLUMNS) + f"{'made':>8}{'ETA':>10}")
    for target in plan.targets.values():
        cells = {cell for need in target.needs for cell in plan.experiments[need].cells}
        counts = Counter(states[cell].name for cell in cells)
        made = all(Path(path).exists() for path in target.outputs(plan.out).values())
        line = "".join(f"{counts[name]:>10}" for name in COLUMNS)
        left = [states[cell].seconds for cell in cells if states[cell].name == "running"]
        eta = str(timedelta(seconds=round(max(left)))) if left else ""
        print(f"{target.name:<24}{line}{'yes' if made else 'no':>8}{eta:>10}")
    finished = [state.seconds for state in states.values() if state.name in ("done", "diverged")]
    running = sum(state.name == "running" for state in states.values())
    print(f"\n{len(finished)} of {len(states)} cells done, {sum(finished):.0f} s of work; {running} running")


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
