"""Readings of a paper: labels on cells, written once a grid, replaced by a tier, shared where they agree."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedrepro.core.spec import TrainSpec, build
from fedrepro.errors import FedreproError
from fedrepro.plan.config import Config
from fedrepro.plan.explain import print_cell
from fedrepro.plan.grid import Entry, expand, load_grid
from fedrepro.plan.plan import Plan, make_plan
from fedrepro.provenance.identity import cell_id
from tests.helpers import ROOT

GRID = """
paper: {title: A paper, authors: Somebody}
readings:
  text: {}
  code:
    set: {clip: none, partition: {streams: legacy}}
    by:
      algorithm:
        fedswe: {algorithm: {echo_clip: 0.5}}
        f3ast: {algorithm: {cap: 2}}
        fedau: {clip: local_grad, partition: {streams: keyed}}
experiments:
  table1:
    kind: train
    where: Table 1
    set:
      dataset: mnist5k
      dynamics: sine
      partition: {clients: 4, alpha: 0.5}
      model: mlp
      rounds: 10
      local_steps: 1
      batch_size: 4
      local_lr: 0.1
      lr_schedule: constant
      clip: local_grad
    axes:
      algorithm: [{name: fedswe, k_over_m: 1.0}, f3ast, fedau]
    readings: [text, code]
    scale:
      demo: {set: {rounds: 5}}
      tiny: {readings: [code]}
"""


def entries(folder: Path, tier: Any, text: str = GRID) -> list[Entry]:
    path = folder / "grid.yaml"
    path.write_text(text)
    return expand(path, load_grid(path), "table1", Config(seeds=[3]), tier)


def test_every_cell_once_for_each_reading_the_headline_first(tmp_path: Path) -> None:
    found = entries(tmp_path, "paper")
    assert [entry.reading for entry in found] == ["text"] * 3 + ["code"] * 3
    swe, f3ast, fedau, swe_code, f3ast_code, fedau_code = (entry.spec for entry in found)
    assert swe.clip == "local_grad" and swe.algorithm.params == {"k_over_m": 1.0}
    assert swe_code.clip == "none" and swe_code.algorithm.params == {"k_over_m": 1.0, "echo_clip": 0.5}
    assert (swe.partition.streams, swe_code.partition.streams) == ("keyed", "legacy")
    assert (f3ast.algorithm.params, f3ast_code.algorithm.params) == ({}, {"cap": 2})
    assert cell_id(fedau) == cell_id(fedau_code), "the reading is a label, not a part of the identity"
    assert cell_id(swe) != cell_id(swe_code)


def test_a_tier_replaces_the_readings_and_values_after_them(tmp_path: Path) -> None:
    assert [entry.reading for entry in entries(tmp_path, "tiny")] == ["code"] * 3
    demo = entries(tmp_path, "demo")
    assert [entry.spec.rounds for entry in demo] == [5] * 6
    assert demo[3].spec.clip == "none"


def test_a_block_without_readings_has_no_label(tmp_path: Path) -> None:
    found = entries(tmp_path, "paper", GRID.replace("    readings: [text, code]\n", ""))
    assert [entry.reading for entry in found] == [None] * 3


WRONG = {
    "of a block": ("readings: [text, code]", "readings: [text, cod]", "experiments.table1.readings", "'cod'"),
    "of a tier": ("readings: [code]", "readings: [paper]", "table1.scale.tiny.readings", "known: code, text"),
    "twice": ("readings: [text, code]", "readings: [text, text]", "table1.readings", "more than once"),
    "unknown key": ("set: {clip: none,", "sets: {clip: none,", "readings.code.sets", "did you mean 'set'?"),
    "unknown field": ("set: {clip: none,", "set: {clp: none,", "unknown key 'clp'", "'clip'"),
    "not allowed": ("set: {clip: none,", "set: {clip: echo,", "key 'clip'", "'none' or 'local_grad'"),
    "no list": ("readings: [text, code]", "readings: text", "table1.readings", "list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_readings(case: str, tmp_path: Path) -> None:
    old, new, *words = WRONG[case]
    assert old in GRID
    with pytest.raises(FedreproError) as caught:
        entries(tmp_path, "paper", GRID.replace(old, new))
    for word in ("grid.yaml", *words):
        assert word in str(caught.value)


def specs(plan: Plan, experiment: str, reading: str | None) -> list[TrainSpec]:
    """Specifications of an experiment's cells under one reading."""
    members = plan.experiments[experiment].members
    texts = [plan.cells[member.cell].spec for member in members if member.reading == reading]
    return [build(TrainSpec, json.loads(text)) for text in texts]


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {tier: make_plan(ROOT, {"tier": tier}) for tier in ("tiny", "demo", "paper")}


def test_fedswe_table2_has_both_readings_in_the_paper_tier_alone(plans: dict[str, Plan]) -> None:
    """10 lines x 3 dynamics x 3 seeds in each; the headline is the text; seeds 3, 4, 6 are the authors'."""
    paper = plans["paper"]
    text, code = (specs(paper, "fedswe_table2", name) for name in ("paper_text", "released_code"))
    assert len(text) == len(code) == 90 * len({spec.dataset for spec in text})
    assert paper.experiments["fedswe_table2"].members[0].reading == "paper_text"
    assert {(spec.clip, spec.clip_norm, spec.partition.streams) for spec in text} == {
        ("local_grad", 0.5, "keyed")
    }
    assert {(spec.clip, spec.partition.streams) for spec in code} == {("none", "legacy")}
    assert {spec.seed for spec in code} == {3, 4, 6}
    clips = {(spec.algorithm.name, spec.algorithm.params.get("echo_clip")) for spec in code}
    assert ("fedswe", 0.5) in clips and len(clips) == 9
    assert {clip for name, clip in clips if name != "fedswe"} == {None}
    for tier in ("tiny", "demo"):
        readings = {member.reading for member in plans[tier].experiments["fedswe_table2"].members}
        assert readings == {"paper_text"}


def test_numbers_of_training_cells(plans: dict[str, Plan]) -> None:
    """Tables 8 and 9 of the demo: 2 lines x 2 new values x 3 seeds each; the third value is Table 2's."""
    tables = ("fedswe_table2", "fedswe_table8", "fedswe_table9")
    for tier, own, extra in (("tiny", 10, 2), ("demo", 90, 24), ("paper", 180, 84)):
        cells = [set(plans[tier].experiments[name].cells) for name in tables]
        assert len(cells[0]) == own * (1 if tier != "paper" else len(cells[0]) // 180)
        assert len(set.union(*cells)) - len(cells[0]) == extra


@pytest.mark.parametrize("tier", ["tiny", "demo", "paper"])
def test_tables_share_the_cells_they_have_in_common(tier: str, plans: dict[str, Plan]) -> None:
    """gamma = 0.3 and alpha = 0.1 are Table 2's sine dynamics."""
    plan = plans[tier]
    base = {
        cell
        for cell, spec in zip(
            plan.experiments["fedswe_table8"].cells, specs(plan, "fedswe_table8", None), strict=True
        )
        if spec.dynamics.params == {}
    }
    assert base and base <= set(plan.experiments["fedswe_table2"].cells)
    assert base <= set(plan.experiments["fedswe_table9"].cells)
    for name in ("fedswe_table5", "fedswe_table6", "fedswe_table7"):
        assert plan.targets[name].needs == ("fedswe_table2",), "no training of its own"
        assert plan.targets[name].where.startswith(f"Table {name[-1]} ")


def test_tiny_with_both_readings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A grid of one's own: ten cells more, the legacy partition and trace, and labels in `plan explain`."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    grid = tmp_path / "config/papers/fedswe/grid.yaml"
    text = grid.read_text()
    old = "tiny: {readings: [paper_text], axes"
    assert old in text
    grid.write_text(text.replace(old, "tiny: {readings: [paper_text, released_code], axes"))
    plan = make_plan(tmp_path, {"tier": "tiny"})
    table2 = plan.experiments["fedswe_table2"]
    assert len(table2.cells) == 20
    print_cell(plan, table2.cells[10])
    assert "experiments  fedswe_table2 (released_code)" in capsys.readouterr().out
