"""Table 7 of FedSWE: the first round to reach a quarter, a half, ... of the best accuracy, sine dynamics.

As the paper's caption: of the test accuracy averaged over seeds, on the grid of the regular evaluations; the
targets are quarters of Table 2's best test accuracy, rounded down to ten percent. On the paper's data sets
they are the printed ones, elsewhere the same fractions of our own best.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedrepro.presentation.accuracy import LINE, accuracies, headline, label, not_comparable, status, tidy
from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Cell, Group, Table

PAPER = "fedswe"
ID = "table7"
NEEDS = ("fedswe_table2",)
REFERENCE = "table7"
WHERE = "Table 7 (l. 2745), appendix H.3"

DYNAMICS = "sine"
QUARTERS = {1: "1/4", 2: "1/2", 3: "3/4", 4: "1"}
LINES = ("fedswe", "fedavg_active", "fedavg_all", "fedau", "f3ast", "fedavg_known", "mifa")
K_OVER_M = 0.0  # of FedSWE


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """One line an algorithm, one block a data set."""
    frame = headline(tidy(frames["fedswe_table2"]))
    published = _published(reference)
    rows = _first_rounds(frame, _targets(frame, published))
    rows = rows.merge(published, on=["dataset", "algorithm", "quarter"], how="left")
    rows["comparable"] = rows["ran_on"] == rows["dataset"]
    order = [
        "dataset", "dynamics", *LINE, "quarter", "target_percent", "locator", "published",
        "published_n", "source", "ran_on", "comparable", "ours_target_percent", "ours_mean", "ours_spread",
        "n", "status",
    ]  # fmt: skip
    columns = ["Algorithm"]
    for name in QUARTERS.values():
        columns += [f"{name}: ours", f"{name}: published"]
    title = "FedSWE, Table 7: first round to reach a test accuracy, sine dynamics"
    return Table(title, rows[order], columns, _layout(rows), _notes(frame, rows))


def _published(reference: pd.DataFrame) -> pd.DataFrame:
    """The printed rounds with the quarter each target stands for; no value: never reached."""
    rank = reference.groupby("dataset")["target_percent"].rank(method="dense")
    rows = reference.assign(quarter=rank.astype(int)).rename(
        columns={"value": "published", "n": "published_n"}
    )
    names = ["dataset", "algorithm", "quarter", "target_percent", "locator", "published", "published_n"]
    return rows[[*names, "source"]]


def _targets(frame: pd.DataFrame, published: pd.DataFrame) -> dict[str, dict[int, float]]:
    """Targets in percent by data set and quarter."""
    table = accuracies(frame)
    best = table[table["split"] == "test"].groupby(["dataset", "ran_on"])["ours_mean"].max()
    out = {}
    for (dataset, ran_on), accuracy in best.items():
        printed = published[published["dataset"] == ran_on]
        if len(printed):
            out[dataset] = dict(zip(printed["quarter"], printed["target_percent"].astype(float), strict=True))
        else:
            whole = round_down(accuracy)
            out[dataset] = {quarter: whole * quarter / 4 for quarter in QUARTERS}
    return out


def round_down(percent: float) -> float:
    """The next lower multiple of ten percent; below ten, of one."""
    step = 10 if percent >= 10 else 1
    return step * math.floor(percent / step) if math.isfinite(percent) else percent


def _first_rounds(frame: pd.DataFrame, targets: Mapping[str, Mapping[int, float]]) -> pd.DataFrame:
    chosen = frame["algorithm"].isin(LINES) & ~(frame["k_over_m"] > K_OVER_M)
    frame = frame[chosen & (frame["dynamics"] == DYNAMICS) & (frame["split"] == "test")]
    rows: list[dict[str, Any]] = []
    for key, runs in frame.groupby(["dataset", "ran_on", "dynamics", *LINE], dropna=False, sort=False):
        facts = dict(zip(["dataset", "ran_on", "dynamics", *LINE], key, strict=True))
        state = runs.drop_duplicates(["seed", "status"])["status"]
        regular = runs[(runs["status"] == "ok") & (runs["round"] % runs["evaluation.test_every"] == 0)]
        curve = 100 * regular.groupby("round")["accuracy"].mean()
        usable = len(curve) > 0 and "diverged" not in set(state)
        for quarter in QUARTERS:
            target = targets[facts["dataset"]][quarter]
            reached = curve.index[curve >= target] if usable else []
            first = float(reached[0]) if len(reached) else float("nan")
            said = [status(state)] if status(state) != "ok" else []
            said += ["never"] if usable and not len(reached) else []
            values = {
                "quarter": quarter, "ours_target_percent": target, "ours_mean": first,
                "ours_spread": float("nan"), "n": regular["seed"].nunique(),
                "status": ", ".join(said) or "ok",
            }  # fmt: skip
            rows.append(facts | values)
    return pd.DataFrame(rows)


def _layout(rows: pd.DataFrame) -> list[Group]:
    groups = []
    for dataset, part in rows.groupby("dataset", sort=False):
        facts = part.drop_duplicates("quarter").sort_values("quarter")
        ours = ", ".join(f"{value:g}" for value in facts["ours_target_percent"])
        printed = ", ".join(f"{value:g}" for value in facts["target_percent"])
        title = f"{display(str(dataset))}: {printed} % published"
        title += "" if facts["comparable"].all() else " (not comparable)"
        title += f"; ours on {display(facts['ran_on'].iloc[0])}: {ours} %"
        lines = []
        for (algorithm, k), line in part.groupby(LINE, dropna=False, sort=False):
            cells = [Cell(label(str(algorithm), k))]
            for _, row in line.sort_values("quarter").iterrows():
                cells += [Cell(_ours(row)), Cell(_printed(row))]
            lines.append(cells)
        groups.append((title, lines))
    return groups


def _ours(row: "pd.Series[Any]") -> str:
    if pd.isna(row["ours_mean"]):
        return str(row["status"])
    return f"{row['ours_mean']:g}" + ("" if row["status"] == "ok" else f" ({row['status']})")


def _printed(row: "pd.Series[Any]") -> str:
    if pd.isna(row["locator"]):
        return "none"
    return "never" if pd.isna(row["published"]) else f"{row['published']:g}"


def _notes(frame: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    every, rounds = sorted(frame["evaluation.test_every"].unique()), sorted(frame["rounds"].unique())
    notes = [
        f"Test accuracy of the server's model, mean over seeds, every {'/'.join(map(str, every))} of "
        f"{'/'.join(map(str, rounds))} rounds. Never: not reached in them; the paper prints a dash.",
        "Targets are a quarter, a half, three quarters and all of the best test accuracy of Table 2, rounded "
        "down to ten percent: as printed on the paper's data sets, of our own best elsewhere.",
    ]
    return notes + not_comparable(rows)
