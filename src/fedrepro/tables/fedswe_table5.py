"""Table 5 of FedSWE: network, learning rate schedule and sizes, as the runs of Table 2 used them."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedrepro.core import registry
from fedrepro.core.job import bind
from fedrepro.core.model import Model
from fedrepro.core.spec import Choice
from fedrepro.presentation.accuracy import headline, not_comparable, status, tidy
from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Cell, Table

PAPER = "fedswe"
ID = "table5"
NEEDS = ("fedswe_table2",)
REFERENCE = "table5"
WHERE = "Table 5 (l. 2377)"

QUANTITIES = {
    "architecture": "Architecture",
    "parameters": "Number of weights",
    "lr_schedule": "Local learning rate in round t",
    "local_steps": "Local steps",
    "rounds": "Rounds",
    "batch_size": "Batch size",
}
SCHEDULES = {"inverse_sqrt": "eta_0 / sqrt(t/10 + 1)", "constant": "eta_0"}
# Table 5 (l. 2377) in its own notation; the weights are counted from it, the paper prints no number.
CONVOLUTIONS = "C(3,32) - R - M - C(32,32) - R - M"
PRINTED = {
    "svhn": {"architecture": f"{CONVOLUTIONS} - L(128) - R - L(10)", "parameters": "273706"},
    "cifar10": {"architecture": f"{CONVOLUTIONS} - L(256) - R - L(64) - R - L(10)", "parameters": "551786"},
    "cinic10": {
        "architecture": f"{CONVOLUTIONS} - D - L(512) - R - D - L(256) - R - D - L(10)",
        "parameters": "1193130",
    },
}


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """One line a quantity, ours beside the printed one for each data set."""
    frame = headline(tidy(frames["fedswe_table2"])).drop_duplicates("cell")
    rows = pd.DataFrame(
        row for dataset, cells in frame.groupby("dataset", sort=False) for row in _facts(str(dataset), cells)
    )
    printed = {(row.dataset, row.metric): f"{row.value:g}" for row in reference.itertuples()}
    printed |= {(name, key): text for name, facts in PRINTED.items() for key, text in facts.items()}
    printed |= {(name, "lr_schedule"): SCHEDULES["inverse_sqrt"] for name in PRINTED}
    keys = zip(rows["dataset"], rows["quantity"], strict=True)
    rows.insert(2, "published", [printed.get(key, "") for key in keys])
    columns, lines = ["Quantity"], [[Cell(title)] for title in QUANTITIES.values()]
    for _, facts in rows.drop_duplicates("dataset").iterrows():
        mark = "" if facts["comparable"] else " (not comparable)"
        columns += [f"{display(facts['ran_on'])}: ours", f"{display(facts['dataset'])}: published{mark}"]
        part = rows[rows["dataset"] == facts["dataset"]]
        for line, (_, row) in zip(lines, part.iterrows(), strict=True):
            state = "" if row["status"] == "ok" else f" ({row['status']})"
            line += [Cell(row["ours"] + state), Cell(row["published"])]
    title = "FedSWE, Table 5: network and training"
    return Table(title, rows, columns, [("Runs of Table 2", lines)], _notes(rows))


def _facts(dataset: str, cells: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of one data set; several values where its runs differ."""
    ran_on = str(cells["ran_on"].iloc[0])
    names = [name for name in cells.columns if name == "model" or name.startswith("model.")]
    plugin = registry.load("dataset", ran_on)
    networks = [network(plugin, row) for _, row in cells[names].drop_duplicates().iterrows()]
    found = {
        "architecture": [architecture for architecture, _ in networks],
        "parameters": [str(size) for _, size in networks],
        "lr_schedule": [SCHEDULES[name] for name in cells["lr_schedule"].unique()],
    }
    for name in ("local_steps", "rounds", "batch_size"):
        found[name] = [str(value) for value in cells[name].unique()]
    return [
        {
            "dataset": dataset, "quantity": name, "ran_on": ran_on, "comparable": ran_on == dataset,
            "ours": ", ".join(found[name]), "n": len(cells), "status": status(cells["status"]),
        }
        for name in QUANTITIES
    ]  # fmt: skip


def network(dataset: Any, row: "pd.Series[Any]") -> tuple[str, int]:
    """Architecture in the paper's notation, and the number of weights of the model that was trained.

    Parameters
    ----------
    dataset : module
        The plugin, for ``SHAPE`` and ``CLASSES``.
    row : Series
        ``model`` and its parameters, as a collected table names and writes them.
    """
    given = row.drop("model").dropna()
    params = {
        str(name).removeprefix("model."): json.loads(value) if isinstance(value, str) else value
        for name, value in given.items()
    }
    plugin, bound = bind("model", Choice(row["model"], params))
    parts, depth = [], dataset.SHAPE[-1]
    for channels in params.get("channels", ()):
        parts += [f"C({depth},{channels})", "R", "M"]
        depth = channels
    drop = ["D"] if params.get("dropout") else []
    for width in params["hidden"]:
        parts += [*drop, f"L({width})", "R"]
    architecture = " - ".join([*parts, *drop, f"L({dataset.CLASSES})"])
    return architecture, Model(plugin, dataset.SHAPE, dataset.CLASSES, bound).size


def _notes(rows: pd.DataFrame) -> list[str]:
    notes = [
        "C(inputs, outputs): convolution 3 x 3; R: ReLU; M: maximum over 2 x 2; D: dropout of 0.2; "
        "L(outputs): linear layer. The loss is the cross-entropy.",
        "The published number of weights is counted from the printed architecture.",
        "The paper states 10 local steps for Section 7.1 only (deviation local-steps).",
    ]
    return notes + not_comparable(rows)
