"""Table 2 of FedSWE from a small frame, by hand.

Accuracies, two seeds, T = 10 and a final window of 4 rounds, so that rounds 8 and 10 count and 6 does not.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from fedrepro.presentation.tables import Cell, Table
from fedrepro.tables.fedswe_table2 import build

ROUNDS = (0, 6, 8, 10)
ACTIVE = ("fedavg_active", None)
ALL = ("fedavg_all", None)
SWE = ("fedswe", 1.0)
# (algorithm, k/m) -> seed -> accuracies of the rounds above; fewer: diverged
RUNS: dict[tuple[str, float | None], dict[int, Sequence[float]]] = {
    ACTIVE: {3: (0.1, 0.9, 0.50, 0.70), 4: (0.1, 0.9, 0.60, 0.68)},
    ALL: {3: (0.1, 0.9, 0.50, 0.52), 4: (0.1, 0.9, 0.50, 0.52)},
    SWE: {3: (0.1, 0.9, 0.80, 0.80), 4: (0.1, 0.9, 0.82, 0.82)},
}


def frame(runs: Mapping[tuple[str, float | None], Mapping[int, Sequence[float]]] = RUNS) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (algorithm, k), seeds in runs.items():
        models = ("server", "client_mean") if algorithm == "fedswe" else ("server",)
        for seed, values in seeds.items():
            status = "ok" if len(values) == len(ROUNDS) else "diverged"
            cell = absent(algorithm, k, seed) | {"status": status}
            for split, model in itertools.product(("train", "test"), models):
                labels = {"split": split, "evaluated": model}
                points = zip(ROUNDS, values, strict=False)
                rows += [cell | labels | {"round": t, "accuracy": accuracy} for t, accuracy in points]
    out = pd.DataFrame(rows)
    categories = ["evaluated", "split", "status", "paper_dataset", "dataset", "dynamics", "algorithm"]
    return out.astype(dict.fromkeys(categories, "category"))


def reference(dataset: str = "svhn") -> pd.DataFrame:
    rows = [
        {"dataset": dataset, "dynamics": "sine", "algorithm": "fedavg_active", "k_over_m": float("nan"),
         "split": "test", "value": 77.7, "spread": 1.25, "n": 3, "locator": "Table 2", "source": "own"},
        {"dataset": dataset, "dynamics": "sine", "algorithm": "fedswe", "k_over_m": 1.0,
         "split": "test", "value": 88.0, "spread": 0.5, "n": 3, "locator": "Table 2", "source": "own"},
    ]  # fmt: skip
    return pd.DataFrame(rows)


def row(table: Table, algorithm: str, split: str = "test", evaluated: str = "server") -> pd.Series:
    rows = table.rows
    chosen = rows[
        (rows["algorithm"] == algorithm) & (rows["split"] == split) & (rows["evaluated"] == evaluated)
    ]
    assert len(chosen) == 1
    return chosen.iloc[0]


def line(table: Table, label: str) -> list[Cell]:
    (_, lines), *_ = table.groups
    (found,) = [cells for cells in lines if cells[0].text == label]
    return found[1:]


def test_mean_of_the_window_then_mean_and_deviation_over_seeds() -> None:
    """Runs of active: (50+70)/2 = 60 and (60+68)/2 = 64; mean 62, deviation sqrt(2*2^2/1) = 2.828."""
    table = build({"fedswe_table2": frame()}, reference())
    active = row(table, "fedavg_active")
    assert active["ours_mean"] == pytest.approx(62)
    assert active["ours_spread"] == pytest.approx(8**0.5)
    assert (active["n"], active["status"]) == (2, "ok")
    assert row(table, "fedavg_all")["ours_spread"] == pytest.approx(0)
    assert row(table, "fedswe")["ours_mean"] == pytest.approx(81)


def test_published_numbers_stand_beside_ours_and_are_not_comparable() -> None:
    table = build({"fedswe_table2": frame()}, reference())
    active = row(table, "fedavg_active")
    assert (active["published_mean"], active["published_spread"], active["published_n"]) == (77.7, 1.25, 3)
    assert not active["comparable"]
    assert pd.isna(row(table, "fedavg_active", "train")["published_mean"])
    cells = line(table, "FedAvg over active")
    assert [cell.text for cell in cells] == [
        "62.0 ± 2.8", "none", "62.0 ± 2.8", "77.7 ± 1.2",
    ]  # fmt: skip
    assert table.columns[2] == "SVHN, train: published (not comparable)"
    assert table.columns[4] == "SVHN, test: published (not comparable)"
    assert table.columns[3] == "MNIST (5,000 digits), test: ours"
    assert any(note.startswith("Not comparable") for note in table.notes)


def test_the_papers_own_data_set_is_comparable() -> None:
    own = frame()
    own["dataset"] = "svhn"
    table = build({"fedswe_table2": own}, reference())
    assert table.rows["comparable"].all()
    assert line(table, "FedAvg over active")[3].text == "77.7 ± 1.2"
    assert table.columns[4] == "SVHN, test: published"
    assert not any("Not comparable" in note for note in table.notes)


def test_k_stands_in_the_label_and_decides_the_published_value() -> None:
    table = build({"fedswe_table2": frame()}, reference())
    assert line(table, "FedSWE, k = m")[3].text == "88.0 ± 0.5"
    assert row(table, "fedswe")["published_mean"] == 88.0
    assert pd.isna(row(table, "fedavg_all")["published_mean"])
    assert line(table, "FedAvg over all")[3].text == "none"


def test_best_is_bold_and_second_underlined() -> None:
    table = build({"fedswe_table2": frame()}, reference())
    found = {name: line(table, name)[2].emphasis for name in ("FedSWE, k = m", "FedAvg over active")}
    assert found == {"FedSWE, k = m": "bold", "FedAvg over active": "underlined"}
    assert line(table, "FedAvg over all")[2].emphasis == ""
    assert {line(table, "FedAvg over all")[i].emphasis for i in (1, 3)} == {""}


def test_a_diverged_run_has_no_mean_and_no_rank() -> None:
    """One of three seeds of FedSWE diverged before the window; the others' ranks move up."""
    runs = RUNS | {SWE: RUNS[SWE] | {6: (0.1, 0.9)}}
    table = build({"fedswe_table2": frame(runs)}, reference())
    swe = row(table, "fedswe")
    assert (swe["status"], swe["n"]) == ("1/3 diverged", 2)
    assert pd.isna(swe["ours_mean"])
    assert pd.isna(swe["ours_spread"])
    assert line(table, "FedSWE, k = m")[2] == Cell("1/3 diverged")
    assert line(table, "FedAvg over active")[2].emphasis == "bold"
    assert line(table, "FedAvg over all")[2].emphasis == "underlined"


def absent(algorithm: str, k: float | None, seed: int) -> dict[str, Any]:
    """The row that stands for a cell that was not run."""
    return {
        "status": "missing", "paper_dataset": "svhn", "dataset": "mnist5k", "dynamics": "sine",
        "algorithm": algorithm, "algorithm.k_over_m": k, "seed": seed, "rounds": 10,
        "evaluation.final_rounds": 4, "reading": "paper_text",
    }  # fmt: skip


def with_absent(runs: Mapping[Any, Any], *rows: dict[str, Any]) -> pd.DataFrame:
    present = frame(runs)
    labels = present.select_dtypes("category").columns
    both = pd.concat([present.astype(dict.fromkeys(labels, "str")), pd.DataFrame(rows)], ignore_index=True)
    return both.astype(dict.fromkeys(labels, "category"))


def test_a_missing_seed_is_said_beside_the_mean_of_the_others() -> None:
    runs = RUNS | {ACTIVE: {3: RUNS[ACTIVE][3]}}
    table = build({"fedswe_table2": with_absent(runs, absent(*ACTIVE, 4))}, reference())
    active = row(table, "fedavg_active")
    assert (active["status"], active["n"]) == ("1/2 missing", 1)
    assert line(table, "FedAvg over active")[2] == Cell("60.0 (1/2 missing)", "underlined")


def test_a_line_of_missing_runs_stays_in_the_table() -> None:
    runs = {key: value for key, value in RUNS.items() if key != SWE}
    rows = absent(*SWE, 3), absent(*SWE, 4)
    table = build({"fedswe_table2": with_absent(runs, *rows)}, reference())
    for column in (0, 2):
        assert line(table, "FedSWE, k = m")[column] == Cell("2/2 missing")
    assert row(table, "fedswe")["n"] == 0
    assert line(table, "FedAvg over active")[2].emphasis == "bold"


def test_one_seed_has_no_deviation() -> None:
    runs = {key: {3: seeds[3]} for key, seeds in RUNS.items()}
    table = build({"fedswe_table2": frame(runs)}, reference())
    assert pd.isna(row(table, "fedavg_active")["ours_spread"])
    assert line(table, "FedAvg over active")[2].text == "60.0"


def test_another_model_is_sensitivity_beside_the_published_value() -> None:
    table = build({"fedswe_table2": frame()}, reference())
    assert row(table, "fedswe", evaluated="client_mean")["ours_mean"] == pytest.approx(81)
    title, ((name, *cells),) = table.groups[1]
    assert title == "Sensitivity, another model evaluated: Sine"
    assert name.text == "FedSWE, k = m, mean of the clients' models"
    assert cells == [Cell("81.0 ± 1.4"), Cell("none"), Cell("81.0 ± 1.4"), Cell("88.0 ± 0.5")]


def test_a_missing_run_is_missing_under_every_model_of_its_algorithm() -> None:
    runs = RUNS | {SWE: {3: RUNS[SWE][3]}}
    table = build({"fedswe_table2": with_absent(runs, absent(*SWE, 4))}, reference())
    assert row(table, "fedswe", evaluated="client_mean")["status"] == "1/2 missing"
    assert table.groups[1][1][0][1].text == "80.0 (1/2 missing)"


def test_algorithms_with_memory_or_known_availability_stand_apart_and_have_no_rank() -> None:
    """MIFA is the best of all, yet the best two of the others carry the marks."""
    runs = RUNS | {("mifa", None): {3: (0.1, 0.9, 0.99, 0.99), 4: (0.1, 0.9, 0.99, 0.99)}}
    table = build({"fedswe_table2": frame(runs)}, reference())
    title, lines = table.groups[1]
    assert title == "Sine, aided by memory or known availability"
    assert [cell.text for cell in lines[0]] == ["MIFA", "99.0 ± 0.0", "none", "99.0 ± 0.0", "none"]
    assert {cell.emphasis for cell in lines[0]} == {""}
    assert line(table, "FedSWE, k = m")[2].emphasis == "bold"
    assert line(table, "FedAvg over active")[2].emphasis == "underlined"


def test_another_reading_is_sensitivity_and_the_first_is_the_headline() -> None:
    """The other reading is better everywhere; neither means nor ranks of the headline know of it."""
    better = {key: dict.fromkeys(seeds, (0.1, 0.9, 1.0, 1.0)) for key, seeds in RUNS.items()}
    code = frame(better).assign(reading="released_code")
    both = pd.concat([frame(), code], ignore_index=True)
    alone, table = (build({"fedswe_table2": f}, reference()) for f in (frame(), both))
    assert table.groups[:2] == alone.groups
    title, lines = table.groups[2]
    assert title == "Sensitivity, reading released_code: Sine" and len(table.groups) == 3
    names = ["FedAvg over active", "FedAvg over all", "FedSWE, k = m"]
    assert [cells[0].text for cells in lines] == [*names, "FedSWE, k = m, mean of the clients' models"]
    assert {cells[1] for cells in lines} == {Cell("100.0 ± 0.0")}
    assert lines[0][4] == Cell("77.7 ± 1.2")
    assert "Headline: reading paper_text; released_code as sensitivity." in table.notes
    assert set(table.rows["reading"]) == {"paper_text", "released_code"}


def test_columns_of_the_file_are_the_references_then_ours() -> None:
    table = build({"fedswe_table2": frame()}, reference())
    assert list(table.rows.columns) == [
        "reading", "dynamics", "dataset", "algorithm", "k_over_m", "split", "evaluated", "locator",
        "published_mean", "published_spread", "published_n", "source", "ran_on", "comparable", "ours_mean",
        "ours_spread", "n", "status",
    ]  # fmt: skip


def test_columns_and_groups() -> None:
    table = build({"fedswe_table2": frame()}, reference())
    assert table.columns[0] == "Algorithm"
    assert len(table.columns) == 5
    assert [title for title, _ in table.groups] == ["Sine", "Sensitivity, another model evaluated: Sine"]
    assert all(len(cells) == len(table.columns) for _, lines in table.groups for cells in lines)


def test_without_any_final_window_the_last_round_counts() -> None:
    """``final_rounds = 0`` is allowed; T itself is always evaluated, so the table must not be empty."""
    own = frame()
    own["evaluation.final_rounds"] = 0
    table = build({"fedswe_table2": own}, reference())
    assert row(table, "fedavg_active")["ours_mean"] == pytest.approx(69)


def test_the_initial_model_is_never_part_of_the_window() -> None:
    """A window longer than the run starts after round 0: (90 + 50 + 70) / 3 and (90 + 60 + 68) / 3."""
    own = frame()
    own["evaluation.final_rounds"] = 50
    table = build({"fedswe_table2": own}, reference())
    assert row(table, "fedavg_active")["ours_mean"] == pytest.approx((70 + 218 / 3) / 2)
