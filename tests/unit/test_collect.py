"""Collecting an experiment: what is refused, what is shown, and what the table holds."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedrepro.core.spec import Choice
from fedrepro.errors import FedreproError
from fedrepro.outputs.collect import collect
from fedrepro.outputs.collected import read_collected
from fedrepro.provenance.files import checked, sidecar_path
from tests.helpers import FinishedCell, finish_cell, shared_inputs, spec_of

NAME = "paper_table"


@pytest.fixture(scope="module")
def originals(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[FinishedCell]:
    """Cells of two algorithms that share a seed's inputs, and one of another seed."""
    folder = tmp_path_factory.mktemp("originals")
    spec = spec_of(batch_size=20, rounds=2)
    inputs = shared_inputs(spec, prepared, folder)
    other = replace(spec, seed=4)
    return [
        finish_cell(replace(spec, algorithm=Choice("fedswe", {"k_over_m": 1.0})), inputs, folder / "cells"),
        finish_cell(spec, inputs, folder / "cells"),
        finish_cell(other, shared_inputs(other, prepared, folder / "4"), folder / "cells"),
    ]


class Experiment:
    """An experiment on disk: its plan, a copy of its cells, and the command that collects it."""

    def __init__(self, originals: list[FinishedCell], folder: Path) -> None:
        self.folder, self.out = folder, folder / "collected" / f"{NAME}.parquet"
        self.cells = []
        for cell in originals:
            copy = folder / "cells" / cell.folder.name
            shutil.copytree(cell.folder, copy)
            self.cells.append(FinishedCell(copy, cell.planned, cell.spec))
        self.write_plan()

    def write_plan(self, **facts: Any) -> None:
        cells = [
            {"cell": cell.folder.name, "paper_dataset": "svhn", "reading": None, **cell.planned._asdict()}
            for cell in self.cells
        ]
        plan = {"experiment": NAME, "tier": "tiny", "where": "Table 9", "published": False, "cells": cells}
        (self.folder / "plan.json").write_text(json.dumps(plan | facts))

    def collect(self, missing: str = "refuse", mixed: str = "refuse") -> pd.DataFrame:
        collect(self.folder / "plan.json", self.folder / "cells", self.out, missing, mixed)
        return pd.read_parquet(self.out)

    def sidecar(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(sidecar_path(self.out).read_text())
        return value


@pytest.fixture
def experiment(originals: list[FinishedCell], tmp_path: Path) -> Experiment:
    return Experiment(originals, tmp_path)


def test_the_table_has_the_rows_of_every_cell_with_its_specification(experiment: Experiment) -> None:
    frame = experiment.collect()
    names = [cell.folder.name for cell in experiment.cells]
    assert list(frame["cell"].unique()) == names  # in the order of the plan
    own = pd.concat(pd.read_parquet(cell.folder / "metrics.parquet") for cell in experiment.cells)
    assert frame["loss"].tolist() == own["loss"].tolist()
    first = frame[frame["cell"] == names[0]]
    constants = {
        "status": "ok", "paper_dataset": "svhn", "dataset": "mnist5k", "seed": 3, "rounds": 2,
        "algorithm": "fedswe", "algorithm.k_over_m": 1.0, "dynamics": "stationary", "model": "mlp",
        "partition.clients": 4, "partition.alpha": 0.5, "clip_norm": 0.5,
        "evaluation.final_rounds": 2, "kind": "train", "mixed_environments": False,
    }  # fmt: skip
    for column, value in constants.items():
        assert first[column].unique().tolist() == [value], column
    others = frame[frame["cell"] != names[0]]
    assert others["algorithm.k_over_m"].isna().all()
    assert set(others["algorithm"]) == {"fedavg_active"}
    assert set(frame[frame["cell"] == names[2]]["seed"]) == {4}


def test_lists_are_written_as_json(experiment: Experiment) -> None:
    """A column of lists could be neither grouped nor compared."""
    assert experiment.collect()["model.hidden"].tolist()[:1] == ["[]"]


def test_the_order_of_the_plan_is_kept(experiment: Experiment) -> None:
    experiment.cells.reverse()
    experiment.write_plan()
    assert list(experiment.collect()["cell"].unique()) == [cell.folder.name for cell in experiment.cells]


def test_a_cell_under_two_readings_has_its_rows_once_for_each(experiment: Experiment) -> None:
    """It is verified and counted once; the order is that of the plan, the headline first."""
    plan = json.loads((experiment.folder / "plan.json").read_text())["cells"]
    labelled = [facts | {"reading": reading} for reading in ("text", "code") for facts in plan[:2]]
    experiment.write_plan(cells=labelled)
    frame = experiment.collect()
    assert frame["reading"].drop_duplicates().tolist() == ["text", "code"]
    halves = [part.drop(columns="reading").reset_index(drop=True) for _, part in frame.groupby("reading")]
    pd.testing.assert_frame_equal(*halves)
    assert experiment.sidecar()["planned"] == 2
    shutil.rmtree(experiment.cells[0].folder)
    shown = experiment.collect("show")
    assert shown[shown["status"] == "missing"]["reading"].tolist() == ["text", "code"]
    assert len(experiment.sidecar()["missing"]) == 1


def test_collecting_twice_gives_the_same_bytes(experiment: Experiment) -> None:
    experiment.collect()
    first = experiment.out.read_bytes()
    experiment.collect()
    assert experiment.out.read_bytes() == first


def test_sidecar_and_provenance(experiment: Experiment) -> None:
    experiment.collect()
    sidecar = experiment.sidecar()
    assert checked(experiment.out) == sidecar["sha256"]
    assert (sidecar["planned"], sidecar["missing"], sidecar["published"]) == (3, {}, False)
    assert sidecar["mixed_environments"] is False
    provenance = json.loads(experiment.out.with_suffix(".cells.json").read_text())
    assert provenance["where"] == "Table 9"
    assert set(provenance["cells"]) == {cell.folder.name for cell in experiment.cells}
    facts = provenance["cells"][experiment.cells[0].folder.name]
    assert facts["code"] == experiment.cells[0].planned.code
    assert read_collected([experiment.out])[NAME].facts == sidecar


def test_a_missing_and_a_stale_cell_are_refused_with_the_command_that_helps(experiment: Experiment) -> None:
    shutil.rmtree(experiment.cells[0].folder)
    experiment.cells[1].rewrite(code="0" * 12)
    with pytest.raises(FedreproError) as caught:
        experiment.collect()
    message = str(caught.value)
    assert f"{NAME}: refused, 1 missing, 1 stale of 3 cells" in message
    assert f"{experiment.cells[0].folder.name}: not run" in message
    assert f"{experiment.cells[1].folder.name}: made by other code" in message
    assert experiment.cells[2].folder.name not in message
    files = " ".join(str(cell.folder / "manifest.json") for cell in experiment.cells[:2])
    assert f"snakemake -c2 --config tier=tiny --forcerun {files} -- {experiment.out}" in message
    assert not experiment.out.exists()


def test_a_refusal_leaves_the_old_table(experiment: Experiment) -> None:
    experiment.collect()
    before = experiment.out.read_bytes()
    experiment.cells[1].rewrite(code="0" * 12)
    with pytest.raises(FedreproError):
        experiment.collect()
    assert experiment.out.read_bytes() == before
    assert not (experiment.folder / "history").exists()


def test_show_takes_what_there_is_and_says_what_is_missing(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(experiment.cells[0].folder)
    experiment.cells[1].rewrite(code="0" * 12)
    frame = experiment.collect(missing="show")
    names = [cell.folder.name for cell in experiment.cells]
    assert list(frame["cell"].unique()) == names
    absent = frame[frame["cell"].isin(names[:2])]
    assert absent["status"].tolist() == ["missing"] * 2  # one row each
    assert absent[["loss", "accuracy", "round", "split"]].isna().all(axis=None)
    assert absent["algorithm"].tolist() == ["fedswe", "fedavg_active"]
    assert absent["seed"].tolist() == [3, 3]
    present = frame[frame["cell"] == names[2]]
    assert set(present["status"]) == {"ok"}
    own = pd.read_parquet(experiment.cells[2].folder / "metrics.parquet")
    assert present["loss"].tolist() == own["loss"].tolist()
    kept = read_collected([experiment.out])[NAME].present
    assert set(kept["cell"]) == {names[2]}
    missing = experiment.sidecar()["missing"]
    assert set(missing) == {cell.folder.name for cell in experiment.cells[:2]}
    assert missing[experiment.cells[0].folder.name] == "not run"
    assert experiment.sidecar()["planned"] == 3
    assert "PARTIAL: 2 of 3 not run" in capsys.readouterr().out


def test_nothing_to_show_is_an_error(experiment: Experiment) -> None:
    shutil.rmtree(experiment.folder / "cells")
    with pytest.raises(FedreproError, match="none of its 3 cells can be used"):
        experiment.collect(missing="show")


def test_a_mixture_within_a_seed_is_refused(experiment: Experiment) -> None:
    experiment.cells[1].rewrite(environment={"system": "elsewhere"})
    with pytest.raises(FedreproError) as caught:
        experiment.collect()
    message = str(caught.value)
    assert "seed 3: 1 cells in" in message
    assert "elsewhere" in message
    assert "seed 4" not in message
    assert "--config mixed_environments=allow" in message


def test_an_allowed_mixture_marks_its_seed(experiment: Experiment) -> None:
    experiment.cells[1].rewrite(environment={"system": "elsewhere"})
    frame = experiment.collect(mixed="allow")
    assert frame.groupby("seed")["mixed_environments"].unique().map(list).to_dict() == {3: [True], 4: [False]}
    assert experiment.sidecar()["mixed_environments"] is True


def test_seeds_may_differ_in_environment(experiment: Experiment) -> None:
    experiment.cells[2].rewrite(environment={"system": "elsewhere"})
    assert not experiment.collect()["mixed_environments"].any()


def test_a_diverged_cell_is_collected(experiment: Experiment) -> None:
    experiment.cells[0].rewrite(status="diverged")
    frame = experiment.collect()
    status = frame.groupby("cell", observed=True)["status"].first().to_dict()
    assert status.pop(experiment.cells[0].folder.name) == "diverged"
    assert set(status.values()) == {"ok"}


def test_the_replaced_table_is_kept_in_history(experiment: Experiment) -> None:
    experiment.collect()
    before = experiment.out.read_bytes()
    digest = experiment.sidecar()["sha256"][:12]
    shutil.rmtree(experiment.cells[0].folder)
    experiment.collect(missing="show")
    assert experiment.out.read_bytes() != before
    (kept,) = (experiment.folder / "history").iterdir()
    assert kept.name.endswith(f"_{digest}")
    assert (kept / experiment.out.name).read_bytes() == before
    assert sorted(path.name for path in kept.iterdir()) == [
        f"{NAME}.cells.json",
        f"{NAME}.parquet",
        f"{NAME}.parquet.json",
    ]


def test_reading_a_changed_table_is_refused(experiment: Experiment) -> None:
    experiment.collect()
    experiment.out.write_bytes(experiment.out.read_bytes()[:-1])
    with pytest.raises(FedreproError, match="does not match its sidecar"):
        read_collected([experiment.out])
