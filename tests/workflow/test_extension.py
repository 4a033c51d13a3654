"""The page "Add an algorithm", followed step by step in a copy of the workflow."""

import re
import sys
from pathlib import Path

from tests.workflow.conftest import ROOT, Workflow

PAGE = ROOT / "docs" / "add-an-algorithm.md"
NAME = "fedavg_half"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)


def test_following_the_page(workflow: Workflow) -> None:
    (code,) = blocks("python")
    plugin = workflow.folder / f"src/fedrepro/algorithms/{NAME}.py"
    plugin.write_text(code)

    listed = workflow.fedrepro("plan", "list")
    assert re.search(rf"algorithms .*\b{NAME}\b", listed.stdout)
    assert workflow.planned() == set(), "a new file alone runs nothing"

    contract = workflow.command(
        sys.executable, "-m", "pytest", "tests/contract", "-k", NAME, "-p", "no:cacheprovider"
    )
    assert contract.returncode == 0, contract.stdout
    passed = re.search(r"(\d+) passed", contract.stdout)
    assert passed and int(passed.group(1)) >= 5

    rate, axis = blocks("yaml")
    grid = "config/papers/fedswe/grid.yaml"
    workflow.edit(
        grid, "        fedavg_all: {local_lr: 0.05}\n", f"        fedavg_all: {{local_lr: 0.05}}\n{rate}"
    )
    workflow.edit(grid, "        - fedavg_all\n", f"        - fedavg_all\n{axis}")
    planned = workflow.planned()
    new = {job for job in planned if job.startswith("train")}
    assert len(new) == 1 and all(f"-{NAME}-" in job for job in new)
    assert planned - new == {
        "collect fedswe_table2",
        *(f"make fedswe_table{number}" for number in (2, 5, 6, 7)),
        "decide fedswe_claims",
        "write results/tiny/report/index.html",
    }
    run = workflow.snakemake("-c2")
    assert run.returncode == 0, run.stderr
    table = Path(workflow.folder, "results/tiny/tables/fedswe_table2.md").read_text()
    assert table.count(f"| {NAME} |") == 1
