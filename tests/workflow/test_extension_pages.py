"""The page "Add dynamics, a figure, a data set, a paper", followed from top to bottom in a copy."""

import re
import sys

import pandas as pd
import pytest

from tests.workflow.conftest import ROOT, Workflow, copy_workflow

PAGE = (ROOT / "docs" / "extend.md").read_text()
FILES = re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", PAGE, flags=re.M | re.S)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A copy of the workflow with all files of the page; nothing of it has been run."""
    workflow = copy_workflow(tmp_path_factory.mktemp("extended") / "workflow")
    for path, content in FILES:
        file = workflow.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return workflow


def test_the_page_has_all_files() -> None:
    assert [path.split("/")[-2] for path, _ in FILES] == [
        "dynamics", "datasets", "datasets", "example", "example", "figures", "report",
    ]  # fmt: skip


def test_plugins_are_listed_and_keep_their_contracts(written: Workflow) -> None:
    listed = written.fedrepro("plan", "list").stdout
    assert re.search(r"dynamics .*\bweekend\b", listed) and re.search(r"datasets .*\beven_digits\b", listed)
    assert re.search(r"example_curves +6 +train", listed)
    contract = written.command(
        sys.executable, "-m", "pytest", "tests/contract", "-k", "weekend", "-p", "no:cacheprovider"
    )
    passed = re.search(r"(\d+) passed", contract.stdout)
    assert contract.returncode == 0 and passed and int(passed.group(1)) >= 1, contract.stdout


def test_the_figure_is_made(written: Workflow) -> None:
    """First the hash is refused and named, as the page says; with it the figure is drawn."""
    refused = written.snakemake("-c2", "example_curves", tier="paper")
    assert refused.returncode != 0
    found = re.search(r"have\s+SHA-256\s+([0-9a-f]{64}),\s+but", refused.stdout + refused.stderr)
    assert found, refused.stdout + refused.stderr
    written.edit("src/fedrepro/datasets/even_digits.yaml", "0" * 64, found.group(1))
    made = written.snakemake("-c2", "example_curves", tier="paper")
    assert made.returncode == 0, made.stdout + made.stderr
    drawn = pd.read_csv(written.folder / "results/paper/figures/example_curves.csv")
    assert set(drawn["algorithm"]) == {"fedavg_active", "fedswe"} and drawn["round"].max() == 28
    last = drawn[drawn["round"] == 28].set_index("algorithm")["mean"]
    assert last["fedavg_active"] > 0.5, "chance is 0.2"
    assert (written.folder / "results/paper/figures/example_curves.png").exists()
