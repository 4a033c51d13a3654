"""Tables 5 to 9 of FedSWE from small frames, by hand."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from fedrepro.plan.config import load
from fedrepro.plan.grid import expand, load_grid
from fedrepro.presentation.tables import Cell, Table
from fedrepro.provenance.header import leaves, resolved
from fedrepro.tables import (
    fedswe_table5,
    fedswe_table6,
    fedswe_table7,
    fedswe_table8,
    fedswe_table9,
    fedswe_tuning,
)
from tests.helpers import ROOT

CELL: dict[str, Any] = {
    "status": "ok", "paper_dataset": "svhn", "dataset": "mnist5k", "reading": "paper_text",
    "dynamics": "sine", "algorithm": "fedavg_active", "algorithm.k_over_m": None, "seed": 3, "rounds": 60,
    "split": "test",
    "evaluated": "server", "evaluation.test_every": 20, "evaluation.final_rounds": 20, "local_lr": 0.05,
    "global_lr": 1.0, "algorithm.amplification": None, "local_steps": 10, "batch_size": 20,
    "lr_schedule": "inverse_sqrt", "model": "mlp", "model.hidden": "[64]", "model.channels": None,
    "model.dropout": None, "dynamics.gamma": 0.3, "partition.alpha": 0.1,
}  # fmt: skip


def run(accuracies: dict[int, float] | None = None, **changes: Any) -> list[dict[str, Any]]:
    """Rows of one run, one an evaluation; None: a run that is missing."""
    facts = CELL | changes
    facts["cell"] = f"{facts['algorithm']}-{facts['algorithm.k_over_m']}-{facts['dynamics']}-{facts['seed']}"
    facts["cell"] += f"-{facts['paper_dataset']}-{facts['reading']}"
    if accuracies is None:
        return [facts | {"status": "missing", "split": None, "evaluated": None}]
    return [facts | {"round": t, "accuracy": accuracy} for t, accuracy in accuracies.items()]


def collected(*runs: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame([row for rows in runs for row in rows])


# --- the search behind Table 6


RATES = pd.DataFrame(
    [("svhn", "fedavg_active", "local_lr", 0.05), ("svhn", "fedavg_active", "global_lr", 1.0)],
    columns=["dataset", "algorithm", "metric", "value"],
)


def searched(local_lr: float, global_lr: float, accuracy: float | None, **changes: Any) -> Any:
    """One run of the search; its accuracy is the mean of rounds 50 and 60, the last 20 of 60."""
    facts = {"local_lr": local_lr, "global_lr": global_lr} | changes
    rounds = None if accuracy is None else {40: 0.99, 50: accuracy - 0.1, 60: accuracy + 0.1}
    return [row | {"cell": str(facts)} for row in run(rounds, **facts)]


def tuning(*runs: list[dict[str, Any]]) -> Table:
    empty = searched(0.05, 1.0, 0.3, algorithm="gfedavg")
    frames = {"fedswe_tuning": collected(*runs), "fedswe_tuning_gfedavg": collected(empty)}
    return fedswe_tuning.build(frames, RATES)


GRID = [(0.1, 1.0, 0.4), (0.05, 1.0, 0.5), (0.01, 1.0, 0.2), (0.05, 0.5, 0.3), (0.05, 5.0, 0.45)]


def test_search_confirms_the_printed_pair() -> None:
    table = tuning(*(searched(*point) for point in GRID))
    assert texts(table) == ["0.05", "1", "50.0", "0.05, 1", "50.0", "the best"]
    assert texts(table, "gFedAvg") == ["0.05", "", "30.0", "none", "", ""]


def test_search_says_how_far_the_printed_pair_is_behind() -> None:
    """0.625 at the largest local rate is 12.5 points above the printed pair."""
    table = tuning(*(searched(*point) for point in GRID), searched(0.1, 0.5, 0.625))
    found = texts(table, "FedAvg over active *")
    assert found == ["0.1", "0.5", "62.5", "0.05, 1", "50.0", "12.5 points behind"]
    assert table.rows["at_edge"].tolist() == [True, False]


def test_search_leaves_out_runs_without_a_result() -> None:
    lost = [searched(0.1, 0.5, 0.9, status="diverged"), searched(0.01, 0.5, None)]
    table = tuning(*(searched(*point) for point in GRID if point[:2] != (0.05, 1.0)), *lost)
    found = texts(table, "FedAvg over active *")
    assert found == ["0.05", "5", "45.0 (1/6 diverged, 1/6 missing)", "0.05, 1", "no result", ""]
    table = tuning(searched(0.05, 1.0, 0.9, status="diverged"))
    assert texts(table)[:3] == ["none", "none", "1/1 diverged"]


# --- Table 7


def table7_reference(algorithm: str = "fedavg_active") -> pd.DataFrame:
    """Targets 20, 40, 60, 80 %; the last is printed as never reached."""
    rows = [
        {"dataset": "svhn", "algorithm": algorithm, "target_percent": target, "value": value, "n": 3,
         "locator": "Table 7", "source": "own"}
        for target, value in ((20, 100), (40, 420), (60, 960), (80, None))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def table7(*runs: list[dict[str, Any]], reference: pd.DataFrame | None = None) -> Table:
    printed = table7_reference() if reference is None else reference
    return fedswe_table7.build({"fedswe_table2": collected(*runs)}, printed)


def texts(table: Table, name: str = "FedAvg over active", group: int = 0) -> list[str]:
    (found,) = [cells for cells in table.groups[group][1] if cells[0].text == name]
    return [cell.text for cell in found[1:]]


RISING = {0: 0.10, 20: 0.20, 40: 0.60, 50: 0.95, 60: 0.70}


def test_first_round_of_the_mean_over_seeds_on_the_regular_grid() -> None:
    """Mean curve 10, 25, 55, 70 % at 0, 20, 40, 60; the best in the window (rounds 50, 60) is 82.5 + a half.

    Seed 3: (95 + 70)/2 = 82.5, seed 4: (95 + 70)/2 = 82.5, so the best is 82.5, rounded down 80, and the
    targets are 20, 40, 60, 80. Round 50 is not on the grid, so that 80 % is never reached.
    """
    other = RISING | {20: 0.30, 40: 0.50}
    table = table7(run(RISING), run(other, seed=4))
    rows = table.rows.set_index("quarter")
    assert rows["ours_target_percent"].tolist() == [20, 40, 60, 80]
    assert rows["ours_mean"].tolist()[:3] == [20, 40, 60] and pd.isna(rows["ours_mean"][4])
    assert rows["status"].tolist() == ["ok", "ok", "ok", "never"] and set(rows["n"]) == {2}
    assert texts(table) == ["20", "100", "40", "420", "60", "960", "never", "never"]


def test_a_target_met_exactly_counts_and_round_0_too() -> None:
    """One seed, window mean 0.40: targets 10, 20, 30, 40; the initial model has 10 %."""
    table = table7(run({0: 0.10, 20: 0.20, 40: 0.30, 60: 0.40}))
    assert texts(table)[::2] == ["0", "20", "40", "60"]


def test_the_best_of_table_2_sets_the_targets_whoever_has_it_under_whatever_dynamics() -> None:
    """FedVARP under the staircase has 84 %, so that targets are quarters of 80; it has no line of its own."""
    best = run({60: 0.84}, algorithm="fedvarp", dynamics="staircase")
    table = table7(run({0: 0.10, 20: 0.40, 60: 0.45}), best)
    assert texts(table)[::2] == ["20", "20", "never", "never"]
    assert len(table.groups[0][1]) == 1


def test_on_the_papers_data_set_the_printed_targets_count() -> None:
    table = table7(run({0: 0.05, 20: 0.30, 40: 0.39, 60: 0.41}, dataset="svhn"))
    assert table.rows["ours_target_percent"].tolist() == [20, 40, 60, 80]
    assert texts(table)[::2] == ["20", "60", "never", "never"]
    assert "(not comparable)" not in table.groups[0][0] and table.rows["comparable"].all()


@pytest.mark.parametrize(("percent", "rounded"), [(86.1, 80), (80, 80), (79.99, 70), (10, 10), (9.7, 9)])
def test_rounding_down(percent: float, rounded: float) -> None:
    assert fedswe_table7.round_down(percent) == rounded


def test_missing_and_diverged_runs_of_table_7() -> None:
    """One of two seeds missing: the other's curve; one diverged: no round; none there: the line stays."""
    swe = {"algorithm": "fedswe", "algorithm.k_over_m": 0.0}
    table = table7(
        run({0: 0.1, 20: 0.5, 60: 0.5}), run(None, seed=4),
        run({0: 0.1, 20: 0.9}, status="diverged", algorithm="fedau"), run(None, algorithm="mifa"),
        run({0: 0.1, 20: 0.5, 60: 0.5}, **swe), run({60: 0.5}, **swe | {"algorithm.k_over_m": 1.0}),
    )  # fmt: skip
    assert texts(table)[::2] == ["20 (1/2 missing)"] * 4
    assert texts(table, "FedAU")[::2] == ["1/1 diverged"] * 4
    assert texts(table, "MIFA")[::2] == ["1/1 missing"] * 4
    assert texts(table, "FedSWE, k = 0") == ["20", "none"] * 4
    assert [cells[0].text for cells in table.groups[0][1]] == [
        "FedAvg over active", "FedAU", "MIFA", "FedSWE, k = 0",
    ]  # fmt: skip


def test_only_the_headline_reading_and_the_servers_model_count_in_table_7() -> None:
    low, high = {0: 0.1, 20: 0.1, 60: 0.4}, {0: 0.9, 20: 0.9, 60: 0.9}
    table = table7(run(low), run(high, reading="released_code"), run(high, evaluated="client_mean"))
    assert texts(table)[::2] == ["0", "60", "60", "60"]


# --- Tables 8 and 9


def published(field: str, value: float, accuracy: float) -> pd.DataFrame:
    row = {
        "dataset": "svhn", "dynamics": "sine", field: value, "algorithm": "fedavg_active", "split": "test",
        "algorithm.k_over_m": float("nan"), "value": accuracy, "spread": 1.0, "n": 3, "locator": "Table",
        "source": "own",
    }  # fmt: skip
    return pd.DataFrame([row])


@pytest.mark.parametrize(
    ("module", "field", "name"),
    [(fedswe_table8, "dynamics.gamma", "gamma"), (fedswe_table9, "partition.alpha", "alpha")],
)
def test_values_of_the_parameter_stand_side_by_side(module: Any, field: str, name: str) -> None:
    """Final windows: rounds 50 and 60. MIFA has no run at 0.1: its cells there are empty."""
    window = {0: 0.1, 50: 0.5, 60: 0.7}
    runs = [
        run(window, **{field: 0.3}), run({60: 0.7}, **{field: 0.1}),
        run({60: 0.9}, **{field: 0.3, "algorithm": "fedau"}),
        run({60: 0.2}, **{field: 0.1, "algorithm": "fedau"}),
        run({60: 0.8}, **{field: 0.3, "algorithm": "mifa"}),
    ]  # fmt: skip
    table = module.build({f"fedswe_{module.ID}": collected(*runs)}, published(field, 0.1, 82.2))
    assert table.columns[3:5] == [
        f"{name} = 0.3, test: ours",
        "published (not comparable)",
    ]
    assert table.columns[7] == f"{name} = 0.1, test: ours"
    active, fedau = (cells[1:] for cells in table.groups[0][1])
    assert active[2:4] == [Cell("60.0", "underlined"), Cell("none")]
    assert active[6:] == [Cell("70.0", "bold"), Cell("82.2 ± 1.0")]
    assert (fedau[2].emphasis, fedau[6].emphasis) == ("bold", "underlined")
    assert table.groups[1][1][0][1:] == [
        Cell(""), Cell(""), Cell("80.0"), Cell("none"), *[Cell("")] * 4,
    ]  # fmt: skip
    assert table.rows[field].tolist() == [0.3, 0.1, 0.3, 0.1, 0.3]


# --- Tables 5 and 6


def test_rates_come_from_the_specifications_that_ran() -> None:
    """gFedAvg's server step is its amplification; the paper's table has neither gFedAvg nor FedVARP."""
    reference = pd.DataFrame(
        [
            {"dataset": "svhn", "algorithm": "fedavg_active", "metric": metric, "value": value,
             "locator": "Table 6", "source": "own"}
            for metric, value in (("local_lr", 0.07), ("global_lr", 1.0))
        ]
    )  # fmt: skip
    stretch = {"algorithm": "gfedavg", "algorithm.amplification": 10.0, "local_lr": 0.005}
    runs = [
        run({60: 0.5}), run({60: 0.5}, seed=4, local_lr=0.1), run({60: 0.5}, **stretch),
        run(None, **stretch, seed=4), run({60: 0.1}, reading="released_code", local_lr=7.0),
    ]  # fmt: skip
    table = fedswe_table6.build({"fedswe_table2": collected(*runs)}, reference)
    assert texts(table) == ["0.05, 0.1", "0.07", "1", "1"]
    assert texts(table, "gFedAvg") == ["0.005 (1/2 missing)", "none", "10 (1/2 missing)", "none"]
    assert table.notes[0] == "The paper's Table 6 has no gFedAvg."
    assert list(table.rows.columns)[-4:] == ["ours_mean", "ours_spread", "n", "status"]


def test_networks_in_the_papers_notation_with_their_weights() -> None:
    """784 x 64 + 64 + 64 x 10 + 10 = 50,890 weights; 7 x 7 x 8 = 392 inputs after two poolings of 28 x 28.

    The convolutional one: 9 x 1 x 4 + 4, 9 x 4 x 8 + 8, 392 x 16 + 16, 16 x 10 + 10 = 40 + 296 + 6288 + 170.
    """
    cnn = {"model": "cnn", "model.hidden": "[16]", "model.channels": "[4, 8]", "model.dropout": 0.2}
    runs = [run({60: 0.5}), run(None, seed=4), run({60: 0.5}, paper_dataset="cifar10", **cnn)]
    reference = pd.DataFrame({"dataset": "svhn", "metric": ["rounds", "batch_size"], "value": [2000, 128]})
    table = fedswe_table5.build({"fedswe_table2": collected(*runs)}, reference)
    found = {cells[0].text: [cell.text for cell in cells[1:]] for cells in table.groups[0][1]}
    assert found["Architecture"][0] == "L(64) - R - L(10) (1/2 missing)"
    assert found["Architecture"][2] == "C(1,4) - R - M - C(4,8) - R - M - D - L(16) - R - D - L(10)"
    assert found["Number of weights"] == ["50890 (1/2 missing)", "273706", "6794", "551786"]
    assert found["Rounds"] == ["60 (1/2 missing)", "2000", "60", ""]
    assert found["Local learning rate in round t"][:2] == [
        "eta_0 / sqrt(t/10 + 1) (1/2 missing)", "eta_0 / sqrt(t/10 + 1)",
    ]  # fmt: skip


@pytest.mark.parametrize("dataset", list(fedswe_table5.PRINTED))
def test_the_networks_of_the_grid_are_the_printed_ones(dataset: str) -> None:
    """On 32 x 32 x 3 images, with the paper's own configuration of each data set."""
    path = ROOT / "config/papers/fedswe/grid.yaml"
    entries = expand(path, load_grid(path), "table2", load(ROOT, {"tier": "paper"}), None)
    spec = next(entry.spec for entry in entries if entry.spec.dataset == dataset)
    row = pd.Series({k: v for k, v in leaves(resolved(spec)) if k == "model" or k.startswith("model.")})
    images = SimpleNamespace(SHAPE=(32, 32, 3), CLASSES=10)
    architecture, size = fedswe_table5.network(images, row)
    assert (architecture, str(size)) == tuple(fedswe_table5.PRINTED[dataset].values())
