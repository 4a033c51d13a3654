"""Comparing results, on collected tables of a few made-up runs of Table 8's experiment."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from fedrepro.cli import main
from fedrepro.errors import FedreproError
from fedrepro.outputs.compare import compare
from fedrepro.provenance.files import describe, sidecar_path
from fedrepro.provenance.identity import dumps

NAME = "fedswe_table8"


@dataclass(frozen=True)
class Run:
    """A made-up run: the accuracies of its last two evaluations, and what tells it from others."""

    seed: int
    accuracies: tuple[float, float]
    algorithm: str = "fedswe"
    local_lr: float = 0.05
    status: str = "ok"

    @property
    def cell(self) -> str:
        """An id as the plan would give it: it changes with the specification."""
        fields = f"{self.seed} {self.algorithm} {self.local_lr}"
        return f"train-x-{self.algorithm}-s{self.seed}-{hashlib.sha256(fields.encode()).hexdigest()[:12]}"

    def rows(self) -> pd.DataFrame:
        """Round 1 lies before the final window, rounds 9 and 10 in it; training rows must not count."""
        frame = pd.DataFrame({"round": [1, 9, 10, 10], "accuracy": [0.0, *self.accuracies, 1.0]})
        return frame.assign(
            split=["test", "test", "test", "train"], evaluated="server", cell=self.cell, status=self.status,
            paper_dataset="svhn", reading=None, seed=self.seed, rounds=10, algorithm=self.algorithm,
            local_lr=self.local_lr, **{"evaluation.final_rounds": 2},
        )  # fmt: skip


def write(folder: Path, runs: list[Run], name: str = NAME) -> Path:
    path = folder / "collected" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.concat(run.rows() for run in runs).to_parquet(path)
    facts = describe(path.read_bytes(), 4 * len(runs)) | {"experiment": name, "missing": {}}
    sidecar_path(path).write_text(dumps(facts))
    cells = {run.cell: {"metrics": {"sha256": repr(run.accuracies)}} for run in runs}
    path.with_suffix(".cells.json").write_text(dumps({"experiment": name, "cells": cells}))
    return folder


def counts(found: Mapping[str, object]) -> dict[str, object]:
    return {name: item.counts for name, item in found.items()}  # type: ignore[attr-defined]


def test_identical_changed_new_and_gone(tmp_path: Path) -> None:
    old = write(tmp_path / "old", [Run(3, (0.5, 0.5)), Run(4, (0.5, 0.5)), Run(6, (0.5, 0.5))])
    new = write(tmp_path / "new", [Run(3, (0.5, 0.5)), Run(4, (0.5, 0.6)), Run(7, (0.5, 0.5))])
    write(new, [Run(3, (0.5, 0.5))], "fedswe_table9")
    found = compare(old, new)
    assert counts(found.experiments) == {NAME: (1, 1, 1, 1), "fedswe_table9": (0, 0, 1, 0)}
    target = found.targets["fedswe_table8"]
    assert (target.pairs, target.unpaired) == (2, 2), "seeds 6 and 7 have no partner"
    assert set(found.targets) == {"fedswe_table8"}, "table 9 has no old side"


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    """Means of the window 40, 50, 60 and 42, 53, 64: differences 2, 3, 4 points, mean 3, t(2) = 4.3027.

    The half width is 4.302653 * 1 / sqrt(3) = 2.484138. A second algorithm that does not change halves the
    mean over the lines of each seed, and so the limits.
    """
    steady = [Run(seed, (0.7, 0.7), "f3ast") for seed in (3, 4, 6)]
    old = [Run(3, (0.3, 0.5)), Run(4, (0.4, 0.6)), Run(6, (0.5, 0.7))]
    new = [Run(3, (0.32, 0.52)), Run(4, (0.43, 0.63)), Run(6, (0.54, 0.74))]
    found = compare(write(tmp_path / "old", old + steady), write(tmp_path / "new", new + steady))
    target = found.targets["fedswe_table8"]
    line = target.lines["fedswe"]
    assert (line.mean, line.low, line.high, line.n) == pytest.approx((3, 3 - 2.484138, 3 + 2.484138, 3))
    assert target.lines["f3ast"].mean == 0
    assert target.total is not None and target.pairs == 6 and target.unpaired == 0
    assert (target.total.mean, target.total.low) == pytest.approx((1.5, 1.5 - 2.484138 / 2))


def test_runs_of_a_changed_hyper_parameter_are_partners(tmp_path: Path) -> None:
    """Changed for one of two algorithms: new ids, but the rate does not vary on the old side."""
    old = [Run(3, (0.3, 0.3)), Run(3, (0.7, 0.7), "f3ast")]
    new = [Run(3, (0.4, 0.4), local_lr=0.1), Run(3, (0.7, 0.7), "f3ast")]
    found = compare(write(tmp_path / "old", old), write(tmp_path / "new", new))
    assert counts(found.experiments) == {NAME: (1, 0, 1, 1)}
    target = found.targets["fedswe_table8"]
    assert target.lines["fedswe"].mean == pytest.approx(10) and target.pairs == 2


def test_a_run_that_diverged_or_is_ambiguous_has_no_partner(tmp_path: Path) -> None:
    old = [Run(3, (0.3, 0.3)), Run(4, (0.3, 0.3))]
    diverged = compare(
        write(tmp_path / "old", old),
        write(tmp_path / "new", [Run(3, (0.4, 0.4), status="diverged"), Run(4, (0.4, 0.4))]),
    ).targets["fedswe_table8"]
    assert (diverged.pairs, diverged.unpaired) == (1, 1)
    two = [Run(3, (0.4, 0.4), local_lr=rate) for rate in (0.1, 0.2)]
    ambiguous = compare(tmp_path / "old", write(tmp_path / "two", two)).targets["fedswe_table8"]
    assert (ambiguous.pairs, ambiguous.unpaired, ambiguous.total) == (0, 4, None)


def test_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = write(tmp_path / "old", [Run(3, (0.3, 0.3)), Run(4, (0.3, 0.3))])
    new = write(tmp_path / "new", [Run(3, (0.4, 0.4)), Run(4, (0.4, 0.4))])
    assert main(["compare", str(old), str(new)]) == 0
    printed = capsys.readouterr().out
    assert "fedswe_table8: 2 pairs, +10.000 [+10.000, +10.000] (2 seeds)" in printed
    assert f"{NAME:<28}{0:>10}{2:>9}{0:>6}{0:>6}" in printed


def test_errors_say_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path / "good", [Run(3, (0.3, 0.3))])
    absent = tmp_path / "absent"
    assert main(["compare", str(absent), str(good)]) == 1
    assert f"{absent} holds no results" in capsys.readouterr().err
    (tmp_path / "file").write_text("no archive")
    with pytest.raises(FedreproError, match="file is not a readable bundle"):
        compare(tmp_path / "file", good)
    (tmp_path / "empty" / "collected").mkdir(parents=True)
    with pytest.raises(FedreproError, match=r"holds no <experiment>\.cells\.json"):
        compare(good, tmp_path / "empty")
    damaged = write(tmp_path / "damaged", [Run(3, (0.3, 0.3))]) / "collected" / f"{NAME}.cells.json"
    damaged.write_text(json.dumps({"experiment": NAME, "cells": {"train-x": {}}}))
    with pytest.raises(FedreproError, match=r"cells\.json is damaged"):
        compare(good, tmp_path / "damaged")
