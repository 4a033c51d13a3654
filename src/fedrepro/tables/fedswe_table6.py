"""Table 6 of FedSWE: initial local and global learning rates, as the runs of Table 2 used them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedrepro.presentation.accuracy import LINE, headline, label, not_comparable, status, tidy
from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Cell, Table

PAPER = "fedswe"
ID = "table6"
NEEDS = ("fedswe_table2",)
REFERENCE = "table6"
WHERE = "Table 6 (l. 2453)"

METRICS = {"local_lr": "eta_0", "global_lr": "eta_g"}


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """Rates from the specifications of Table 2's cells, beside the printed ones."""
    frame = headline(tidy(frames["fedswe_table2"]))
    rows = _rates(frame)
    published = reference.rename(columns={"value": "published"})
    names = ["dataset", "algorithm", "metric", "locator", "published", "source"]
    rows = rows.merge(published[names], on=["dataset", "algorithm", "metric"], how="left")
    rows["comparable"] = rows["ran_on"] == rows["dataset"]
    order = ["dataset", *LINE, "metric", "locator", "published", "source", "ran_on", "comparable"]
    rows = rows[[*order, "ours_mean", "ours_spread", "n", "status"]]
    columns = ["Algorithm"]
    for _, facts in rows.drop_duplicates("dataset").iterrows():
        mark = "" if facts["comparable"] else " (not comparable)"
        for metric in METRICS.values():
            columns.append(f"{display(facts['ran_on'])}, {metric}: ours")
            columns.append(f"{display(facts['dataset'])}, {metric}: published{mark}")
    lines = []
    for (algorithm, k), line in rows.groupby(LINE, dropna=False, sort=False):
        cells = [Cell(label(str(algorithm), k))]
        for dataset in rows["dataset"].unique():
            for metric in METRICS:
                cells += _cells(line[(line["dataset"] == dataset) & (line["metric"] == metric)])
        lines.append(cells)
    title = "FedSWE, Table 6: initial local learning rate eta_0 and global learning rate eta_g"
    return Table(title, rows, columns, [("Rates of the runs of Table 2", lines)], _notes(rows))


def _rates(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a rate; several where the runs of one line differ."""
    frame = frame.drop_duplicates("cell")
    rows: list[dict[str, Any]] = []
    for key, cells in frame.groupby(["dataset", "ran_on", *LINE], dropna=False, sort=False):
        facts = dict(zip(["dataset", "ran_on", *LINE], key, strict=True))
        values = {"local_lr": cells["local_lr"], "global_lr": cells["global_lr"]}
        if facts["algorithm"] == "gfedavg":  # its server step is the stretch at the end of a period
            values["global_lr"] = cells["algorithm.amplification"]
        for metric, rates in values.items():
            for rate in rates.unique():
                found = {"ours_mean": rate, "ours_spread": float("nan"), "n": int((rates == rate).sum())}
                rows.append(facts | {"metric": metric} | found | {"status": status(cells["status"])})
    return pd.DataFrame(rows)


def _cells(rates: pd.DataFrame) -> list[Cell]:
    if rates.empty:
        return [Cell(""), Cell("")]
    facts = rates.iloc[0]
    text = ", ".join(f"{rate:g}" for rate in rates["ours_mean"])
    text += "" if facts["status"] == "ok" else f" ({facts['status']})"
    return [Cell(text), Cell("none" if pd.isna(facts["published"]) else f"{facts['published']:g}")]


def _notes(rows: pd.DataFrame) -> list[str]:
    absent = rows.loc[rows["published"].isna(), "algorithm"].unique()
    notes = []
    if len(absent):
        notes.append(f"The paper's Table 6 has no {' and no '.join(display(name) for name in absent)}.")
    if "gfedavg" in absent:
        notes.append("gFedAvg has no eta_g: its server step is the amplification at the end of a period.")
    return notes + not_comparable(rows)
