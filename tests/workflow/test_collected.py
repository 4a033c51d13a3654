"""What can be done with results whose cells are elsewhere: rebuilding, bundles."""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.workflow.conftest import Workflow

REBUILT = ("figures", "tables", "claims", "report")


def contents(folder: Path, *parts: str) -> dict[str, bytes]:
    files = (path for part in parts for path in (folder / part).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_everything_rebuilds_from_what_is_collected(workflow: Workflow) -> None:
    """To the same bytes, with neither cells nor data; a plan newer than the tables would have trained."""
    folder = workflow.folder / "results/tiny"
    before = contents(folder, *REBUILT)
    assert len(before) > 100
    for name in ("cells", "partitions", "traces", *REBUILT, "../data", "../../.snakemake"):
        shutil.rmtree(folder / name)
    for path in (folder / "plan").iterdir():
        path.touch()
    assert any(job.startswith("train") for job in workflow.planned())
    run = workflow.snakemake("-c2", config=("missing=collected",))
    assert run.returncode == 0, run.stderr
    assert contents(folder, *REBUILT) == before
    assert not (folder / "cells").exists() and not (workflow.folder / "results/data").exists()
    assert workflow.planned(config=("missing=collected",)) == set()


def test_a_bundle_is_the_same_twice_and_rebuilds(workflow: Workflow, finished: Workflow) -> None:
    """Packed in two folders; unpacked where there are no results, all but `collected` and `plan` removed."""
    name = "results/tiny/bundle-tiny.tar.gz"
    archives = []
    for made in (workflow, finished):
        packed = made.fedrepro("bundle", "--config", "tier=tiny")
        assert packed.returncode == 0 and packed.stdout.strip() == name, packed.stderr
        archives.append((made.folder / name).read_bytes())
    assert archives[0] == archives[1]
    before = contents(workflow.folder / "results/tiny", *REBUILT)
    shutil.rmtree(workflow.folder / "results")
    shutil.rmtree(workflow.folder / ".snakemake")
    with tarfile.open(finished.folder / name) as archive:
        archive.extractall(workflow.folder, filter="data")
    folder = workflow.folder / "results/tiny"
    assert contents(folder, *REBUILT) == before
    summed = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True
    )
    assert summed.returncode == 0, summed.stderr
    assert len(list(folder.glob("cells/*/manifest.json"))) == len(finished.cells())
    run = workflow.snakemake("-c2", "partial", "partial_claims", config=("missing=collected",))
    assert run.returncode == 0, run.stderr
    assert contents(folder, *REBUILT) == before

    same = workflow.fedrepro("compare", "results/tiny", str(finished.folder / name))
    assert same.returncode == 0, same.stderr
    assert re.search(r"^fedswe_table2 +10 +0 +0 +0$", same.stdout, flags=re.M)
    assert "fedswe_table2: 10 pairs, +0.000 (1 seed: no interval)\n" in same.stdout


def test_only_what_the_plan_would_collect_is_used(workflow: Workflow) -> None:
    folder = workflow.folder / "results/tiny"
    shutil.rmtree(folder / "cells")
    (workflow.folder / "mine.yaml").write_text("seeds: [5]\n")
    other = workflow.snakemake("-n", "--configfile", "mine.yaml", config=("missing=collected",))
    said = other.stdout + other.stderr
    assert (
        other.returncode != 0 and "collected/fedswe_table2.parquet: 20 cells differ from the plan's" in said
    )

    workflow.edit("src/fedrepro/algorithms/f3ast.py", "    state[", "    state = state\n    state[")
    edited = workflow.snakemake("-n", config=("missing=collected",))
    assert edited.returncode != 0 and "f3ast" in edited.stdout + edited.stderr
    assert "was made by other code" in edited.stdout + edited.stderr

    path = folder / "collected/partial_table2.cells.json"
    facts = json.loads(path.read_text())
    assert facts["cells"]
    path.write_text("{")
    broken = workflow.snakemake("-n", config=("missing=collected",))
    assert broken.returncode != 0 and f"{path.name} is not readable JSON" in broken.stdout + broken.stderr
