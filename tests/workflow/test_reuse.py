"""Keeping results after a refactoring: only once a sample, run again, has the same bytes."""

import json
from typing import Any

from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.plan.plan import make_plan
from fedrepro.plan.reuse import draw_sample
from fedrepro.provenance import jobs
from fedrepro.provenance.manifest import cell_spec
from tests.workflow.conftest import Workflow

BATCHES = "src/fedrepro/core/minibatches.py"


def manifests(workflow: Workflow) -> dict[str, dict[str, Any]]:
    found = workflow.folder.glob("results/tiny/cells/train-*/manifest.json")
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def reuse(workflow: Workflow, sample: int) -> tuple[int, str]:
    found = workflow.fedrepro("plan", "reuse", "--verify", str(sample), "--config", "tier=tiny", "--", "-c2")
    return found.returncode, found.stdout + found.stderr


def test_a_refactoring_keeps_what_a_sample_confirms(workflow: Workflow) -> None:
    """All training cells are stale; two run again, the rest are kept, and nothing is left to train."""
    before = manifests(workflow)
    workflow.edit(BATCHES, "return self._sizes[clients]", "return (self._sizes)[clients + 0]")
    assert len(workflow.planned()) > len(before)
    status, said = reuse(workflow, 2)
    assert status == 0, said
    assert f"all 2 have the same bytes; {len(before) - 2} others are kept" in said
    after = manifests(workflow)
    kept = [cell for cell in after if "reused" in after[cell]]
    assert len(kept) == len(before) - 2
    for cell in kept:
        assert after[cell]["reused"]["code"] == before[cell]["code"] != after[cell]["code"]
        assert set(after[cell]["reused"]["verified"]) == set(after) - set(kept)
        assert after[cell]["started"] == before[cell]["started"]
    assert not [job for job in workflow.planned() if job.startswith("train")]
    assert workflow.snakemake("-c2").returncode == 0, "they may be collected"


def test_a_change_of_numbers_keeps_nothing(workflow: Workflow) -> None:
    before = manifests(workflow)
    workflow.edit(BATCHES, "first = self._spec.local_steps *", "first = 1 + self._spec.local_steps *")
    status, said = reuse(workflow, 1)
    assert status == 1
    assert "1 of 1 have other numbers; nothing is kept" in said
    assert sum(found["code"] != before[cell]["code"] for cell, found in manifests(workflow).items()) == 1


def test_nothing_to_keep(workflow: Workflow) -> None:
    assert reuse(workflow, 3) == (0, "no cell is stale because of its code alone; there is nothing to keep\n")


def test_a_sample_takes_all_kinds_in_turn() -> None:
    """The first cells of a sample have all combinations of kind and plugins, once each."""
    plan = make_plan(PACKAGE_ROOT.parents[1], {"tier": "tiny"})
    cells = list(plan.cells)

    def combination(cell: str) -> tuple[str, ...]:
        found = jobs.plugins(cell_spec(cell, plan.cells[cell].spec))
        return (plan.cells[cell].step, *(name for kind, name in found if kind != "dataset"))

    combinations = {combination(cell) for cell in cells}
    sample = draw_sample(plan, cells, len(combinations))
    assert {combination(cell) for cell in sample} == combinations
    assert sample == draw_sample(plan, cells, len(combinations))
    assert sorted(draw_sample(plan, cells, 10**4)) == sorted(cells), "never more than there are"
