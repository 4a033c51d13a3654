"""Estimates and the state of a run, on the finished tiny tier."""

import json
import os
import shutil
import time
from pathlib import Path

from fedrepro.plan.work import alike, work
from fedrepro.provenance.manifest import cell_spec
from tests.workflow.conftest import Workflow

TINY = ("--config", "tier=tiny")


def manifest(workflow: Workflow, cell: str) -> dict[str, float]:
    return dict(json.loads((workflow.folder / f"results/tiny/cells/{cell}/manifest.json").read_text()))


def row(said: str, first: str) -> list[str]:
    return next(line.split() for line in said.splitlines() if line.startswith(first))


def test_what_is_left_is_estimated_from_what_is_done(workflow: Workflow) -> None:
    """Every second of the cells alike is deleted, where all took a hundredth of a second for 1,000 images.

    The tiny tier's own seconds are too short to tell anything on a machine that does something else as well;
    a unit test compares the estimate with a finished demo.
    """
    cells = sorted(workflow.cells("train"))
    groups: dict[str, list[str]] = {}
    for cell in cells:
        path = workflow.folder / f"results/tiny/cells/{cell}/manifest.json"
        facts = json.loads(path.read_text())
        spec = cell_spec(cell, facts["canonical"])
        groups.setdefault(alike(spec), []).append(cell)
        to_do = work(spec)
        facts["seconds"] = 1e-5 * (to_do.training + to_do.evaluation)
        path.write_text(json.dumps(facts))
    gone = [cell for group in groups.values() for cell in group[1::2]]
    took = sum(manifest(workflow, cell)["seconds"] for cell in gone)
    for cell in gone:
        shutil.rmtree(workflow.folder / f"results/tiny/cells/{cell}")
    said = workflow.fedrepro("plan", "estimate", *TINY)
    assert said.returncode == 0, said.stderr
    assert row(said.stdout, "train")[1] == str(len(gone)) and "written: results/tiny/cost.json" in said.stdout
    written = json.loads((workflow.folder / "results/tiny/cost.json").read_text())["cells"]
    assert set(cells) < set(written) and not list(workflow.folder.glob("results/bench/*"))
    assert 0.7 < sum(written[cell][0] for cell in gone) / took < 1.3
    planned = workflow.planned(*(f"results/tiny/cells/{cell}/manifest.json" for cell in cells))
    assert planned == {f"train {cell}" for cell in gone}, "an estimate makes nothing run again"


def test_status_of_a_run_that_goes_on(workflow: Workflow) -> None:
    """Of Table 2's ten cells one is running, one has failed, one was interrupted long ago, one diverged."""
    folder = workflow.folder / "results/tiny"
    running, failed, old, diverged, *_ = sorted(workflow.cells("train", "sine", "s3"))
    for cell in (running, failed, old):
        shutil.rmtree(folder / "cells" / cell)
        (folder / ".checkpoints" / cell).mkdir(parents=True)
        (folder / ".checkpoints" / cell / "attempts.json").write_text("{}")
        write_log(folder, cell, "round 0/6  0 s, 0 s left\nround 3/6  40 s, 100 s left  server 10.0 %\n")
    write_log(folder, failed, "round 3/6  40 s, 100 s left\nRuntimeError: broken\n")
    hour_ago = time.time() - 3600
    os.utime(folder / f"logs/cells/{old}.log", (hour_ago, hour_ago))
    path = folder / f"cells/{diverged}/manifest.json"
    path.write_text(path.read_text().replace('"status": "ok"', '"status": "diverged"'))
    said = workflow.fedrepro("plan", "status", *TINY)
    assert said.returncode == 0, said.stderr
    heads = row(said.stdout, "target")[1:]
    cells = dict(zip(heads, row(said.stdout, "fedswe_table2")[1:], strict=True))
    assert {key: cells[key] for key in ("diverged", "running", "stale", "invalid", "missing")} == {
        "diverged": "1", "running": "1", "stale": "0", "invalid": "0", "missing": "2",
    }  # fmt: skip
    assert cells["ETA"].startswith(("0:01:3", "0:01:40"))
    assert "ETA" in heads and len(row(said.stdout, "partial_fig1")) == len(heads), (
        "nothing runs there: no ETA"
    )


def test_explain_names_the_module_that_made_a_cell_stale(workflow: Workflow) -> None:
    workflow.edit("src/fedrepro/algorithms/mifa.py", "normalise: bool = False", "normalise: bool = not True")
    (cell,) = workflow.cells("train", "mifa")
    said = workflow.fedrepro("plan", "explain", cell, *TINY)
    assert "stale: module fedrepro.algorithms.mifa changed" in said.stdout
    (other,) = workflow.cells("train", "fedau")
    assert "up to date" in workflow.fedrepro("plan", "explain", other, *TINY).stdout


def write_log(folder: Path, cell: str, text: str) -> None:
    (folder / "logs/cells" / f"{cell}.log").write_text(text)
