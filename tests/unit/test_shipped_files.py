"""The files that are shipped are valid, complete, and what the code writes."""

import csv
import importlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedrepro.claims.verdicts import the_metric, the_rule
from fedrepro.plan import defaults
from fedrepro.plan.cards import card
from fedrepro.plan.claims import load_claims
from fedrepro.plan.config import TIERS, Config, load, read_yaml
from fedrepro.plan.deviations import load_deviations
from fedrepro.plan.grid import load_grid
from fedrepro.plan.pages import dataset_page
from fedrepro.plan.plan import make_plan

ROOT = Path(__file__).parents[2]
PAPERS = sorted(path.name for path in (ROOT / "config/papers").iterdir())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", defaults.default_yaml()),
        ("schema.json", defaults.schema_json()),
        ("README.md", defaults.key_table()),
    ],
)
def test_written_files_are_current(name: str, text: str) -> None:
    assert (ROOT / "config" / name).read_text() == text, "run `make config`"


def test_page_of_data_sets_is_current() -> None:
    assert (ROOT / "docs" / "datasets.md").read_text() == dataset_page(), "run `make config`"


def test_default_file_holds_every_key() -> None:
    assert Config.model_validate(yaml.safe_load(defaults.default_yaml()), strict=False) == Config()


@pytest.mark.parametrize("tier", TIERS)
def test_tiers_make_plans(tier: str) -> None:
    plan = make_plan(ROOT, {"tier": tier})
    assert plan.config == load(ROOT, {"tier": tier}) and plan.targets
    training = [cell for cell in plan.reported_cells if plan.cells[cell].step == "train"]
    assert 0 < len(training) <= {"tiny": 20, "demo": 180, "paper": 10**4, "decide": 10**4}[tier]


def test_every_paper_has_its_files() -> None:
    for paper in PAPERS:
        folder = ROOT / "config/papers" / paper
        assert load_grid(folder / "grid.yaml").experiments
        assert load_deviations(folder / "deviations.yaml") and load_claims(folder / "claims.yaml")


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_name_what_exists(paper: str) -> None:
    """Deviations, metrics with parameters that they take, and rules; every published target that is named."""
    folder = ROOT / "config/papers" / paper
    ledger = load_deviations(folder / "deviations.yaml")
    for key, claim in load_claims(folder / "claims.yaml").items():
        assert set(claim.deviations) <= set(ledger), key
        for test in claim.tests:
            the_metric(key, test.metric)
            the_rule(key, test.rule)


@pytest.mark.parametrize("paper", PAPERS)
def test_deviations_name_code_that_exists(paper: str) -> None:
    for name, deviation in load_deviations(ROOT / f"config/papers/{paper}/deviations.yaml").items():
        parts = deviation.symbol.split(".")
        found: Any = None
        for length in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:length]))
            except ModuleNotFoundError:
                continue
            break
        for attribute in parts[length:]:
            fields = getattr(found, "__dataclass_fields__", {})
            assert hasattr(found, attribute) or attribute in fields, f"{name}: {deviation.symbol}"
            found = getattr(found, attribute, None)


def test_not_comparable_cites_a_deviation() -> None:
    assert "digits" in load_deviations(ROOT / "config/papers/fedswe/deviations.yaml")


def test_published_table_is_complete() -> None:
    """Table 2: 10 lines x 3 data sets x 3 dynamics x 2 splits; Tables 7 to 9: 7 lines."""
    with (ROOT / "config/papers/fedswe/reference.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["target"] for row in rows) == {
        "table2": 10 * 3 * 3 * 2, "table5": 3 * 2, "table6": 7 * 3 * 2, "table7": 7 * 3 * 4,
        "table8": 7 * 3 * 2, "table9": 7 * 3 * 2,
    }  # fmt: skip
    assert {row["target"] for row in rows if not row["value"]} == {"table7"}, "a dash: never reached"


def test_cards_and_captions() -> None:
    assert card("mnist5k").samples == {"train": 4000, "test": 1000}
    for target in make_plan(ROOT, {}).targets:
        assert (ROOT / f"workflow/report/{target}.rst").read_text().strip()


def test_lock_pins_what_is_used() -> None:
    lock = dict(
        line.split("==")
        for line in (ROOT / "envs/requirements.lock").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    )
    names = {name.lower() for name in lock}
    used = (ROOT / "envs/requirements.in").read_text().splitlines()
    assert {line.split()[0] for line in used if line and not line.startswith("#")} <= names


def test_grid_and_tiers_are_read_as_mappings() -> None:
    for path in (ROOT / "config").rglob("*.yaml"):
        assert read_yaml(path)


def test_readme_leads_to_claims_that_exist() -> None:
    """The report that it links to is not in the repository, so its anchors are checked against the claims."""
    linked = re.findall(r"report/index\.html#claim-([^)]+)\)", (ROOT / "README.md").read_text())
    known = {key for paper in PAPERS for key in load_claims(ROOT / f"config/papers/{paper}/claims.yaml")}
    assert linked and set(linked) <= known
