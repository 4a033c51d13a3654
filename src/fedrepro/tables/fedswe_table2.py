"""Table 2 of FedSWE: accuracy of each algorithm under three dynamics of availability."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Cell, Table

PAPER = "fedswe"
ID = "table2"
NEEDS = ("fedswe_table2",)
REFERENCE = True

KEYS = ["dynamics", "dataset", "algorithm", "k_over_m", "split", "evaluated"]
SPLITS = ("train", "test")


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """Mean over the final window of each run, then mean and standard deviation over seeds, in percent."""
    runs = _runs(frames["fedswe_table2"])
    ours = _summary(runs)
    published = reference.rename(
        columns={"value": "published_mean", "spread": "published_spread", "algorithm.k_over_m": "k_over_m"}
    )
    on = ["dynamics", "dataset", "algorithm", "k_over_m", "split"]
    for frame in (ours, published):
        frame["k_over_m"] = frame["k_over_m"].astype(float)
    columns = [*on, "locator", "published_mean", "published_spread", "n", "source"]
    rows = ours.merge(published[columns].rename(columns={"n": "published_n"}), on=on, how="left")
    rows["comparable"] = rows["ran_on"] == rows["dataset"]
    return Table(
        "FedSWE, Table 2: accuracy (%), mean ± standard deviation over seeds",
        rows,
        *_layout(rows),
        notes=_notes(rows),
    )


def _runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of every run: mean over the evaluations of its final window."""
    frame = frame.rename(columns={"algorithm.k_over_m": "k_over_m", "dataset": "ran_on"})
    frame = frame.rename(columns={"paper_dataset": "dataset"})
    labels = frame.select_dtypes("category").columns
    frame = frame.astype(dict.fromkeys(labels, "str"))
    if "k_over_m" not in frame:
        frame["k_over_m"] = float("nan")
    missing = frame[frame["status"] == "missing"].assign(evaluated="server")
    frame = pd.concat([frame, *(missing.assign(split=split) for split in SPLITS)])
    first = (frame["rounds"] - frame["evaluation.final_rounds"].clip(lower=1)).clip(lower=0)
    window = frame["round"] > first
    kept = frame[frame["split"].notna() & (window | (frame["status"] != "ok"))]
    by = [*KEYS, "ran_on", "seed", "status"]
    return kept.groupby(by, dropna=False, observed=True, sort=False)["accuracy"].mean().reset_index()


def _summary(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per line and column of the table; a diverged run leaves no mean, a missing one is left out."""
    rows: list[dict[str, Any]] = []
    for key, group in runs.groupby([*KEYS, "ran_on"], dropna=False, observed=True, sort=False):
        ok = 100 * group.loc[group["status"] == "ok", "accuracy"]
        bad = {status: int((group["status"] == status).sum()) for status in ("diverged", "missing")}
        shown = not bad["diverged"] and len(ok) > 0
        rows.append(
            dict(zip([*KEYS, "ran_on"], key, strict=True))
            | {
                "ours_mean": ok.mean() if shown else float("nan"),
                "ours_spread": ok.std(ddof=1) if shown else float("nan"),
                "n": len(ok),
                "status": ", ".join(f"{n}/{len(group)} {s}" for s, n in bad.items() if n) or "ok",
            }
        )
    return pd.DataFrame(rows)


def _layout(rows: pd.DataFrame) -> tuple[list[str], list[tuple[str, list[list[Cell]]]]]:
    headline = rows[rows["evaluated"] == "server"]
    datasets = list(headline["dataset"].unique())
    columns = ["Algorithm"]
    for dataset in datasets:
        facts = headline[headline["dataset"] == dataset].iloc[0]
        mark = "" if facts["comparable"] else " (not comparable)"
        for split in SPLITS:
            columns.append(f"{display(facts['ran_on'])}, {split}: ours")
            columns.append(f"{display(dataset)}, {split}: published{mark}")
    groups = []
    for dynamics, group in headline.groupby("dynamics", observed=True, sort=False):
        lines = []
        for (algorithm, k), row in group.groupby(
            ["algorithm", "k_over_m"], dropna=False, observed=True, sort=False
        ):
            line = [Cell(_label(str(algorithm), k))]
            for dataset in datasets:
                for split in SPLITS:
                    where = (row["dataset"] == dataset) & (row["split"] == split)
                    same = (group["dataset"] == dataset) & (group["split"] == split)
                    line += _cells(row[where], group[same])
            lines.append(line)
        groups.append((display(str(dynamics)), lines))
    return columns, groups


def _cells(row: pd.DataFrame, rivals: pd.DataFrame) -> list[Cell]:
    """Ours and the published value; the best of a column bold, the second best underlined."""
    facts = row.iloc[0]
    published = "none"
    if pd.notna(facts["published_mean"]):
        published = _pm(facts["published_mean"], facts["published_spread"])
    if pd.isna(facts["ours_mean"]):
        return [Cell(facts["status"]), Cell(published)]
    rank = int((rivals["ours_mean"] > facts["ours_mean"]).sum())
    text = _pm(facts["ours_mean"], facts["ours_spread"])
    text += "" if facts["status"] == "ok" else f" ({facts['status']})"
    emphasis = {0: "bold", 1: "underlined"}.get(rank, "")
    return [Cell(text, emphasis), Cell(published)]  # type: ignore[arg-type]


def _pm(mean: float, spread: float) -> str:
    return f"{mean:.1f}" + ("" if pd.isna(spread) else f" ± {spread:.1f}")


def _label(algorithm: str, k_over_m: float) -> str:
    if pd.isna(k_over_m):
        return display(algorithm)
    k = {0.0: "0", 1.0: "m"}.get(k_over_m, f"{k_over_m:g} m")
    return f"{display(algorithm)}, k = {k}"


def _notes(rows: pd.DataFrame) -> list[str]:
    seeds = sorted(rows.loc[rows["n"] > 0, "n"].unique())
    notes = [
        "Evaluated on the server's model. Each value is the mean over the evaluations of a run's "
        f"last rounds, then over {'/'.join(map(str, seeds))} seeds.",
        "Best of a column bold, second best underlined, among the algorithms shown.",
    ]
    mean = rows[(rows["evaluated"] == "client_mean") & (rows["split"] == "test")]
    if len(mean):
        values = "; ".join(
            f"{display(row.dynamics)} {_label(row.algorithm, row.k_over_m)} "
            f"{_pm(row.ours_mean, row.ours_spread)}"
            for row in mean.itertuples()
        )
        notes.append(f"Test accuracy of the mean of all clients' models instead: {values}.")
    if not rows["comparable"].all():
        notes.append("Not comparable: the data set of our run is not the published one (deviation digits).")
    return notes
