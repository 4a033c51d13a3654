"""The search behind Table 6 of FedSWE: the best pair of learning rates, beside the printed one."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedrepro.presentation.accuracy import LINE, label, not_comparable, tidy
from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Cell, Table
from fedrepro.presentation.training import final_window

PAPER = "fedswe"
ID = "tuning"
NEEDS = ("fedswe_tuning", "fedswe_tuning_gfedavg")
REFERENCE = "table6"
WHERE = "Appendix H.1 (l. 2371), Table 6 (l. 2453)"
ON_DEMAND = True  # as many rounds of training as Table 2

PAIR = ["local_lr", "global_lr"]
KEYS = ["reading", "dataset", "ran_on", *LINE]


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """Per algorithm, data set and reading: the best of the searched pairs, and how far the printed one is.

    What is compared is the test accuracy of the server's model over the final rounds of one run each. A run
    that diverged or is missing has none.
    """
    frame = pd.concat([tidy(frames[name]) for name in NEEDS])
    frame = frame[(frame["evaluated"] == "server") & (frame["split"] == "test")]
    runs = final_window(frame, [*KEYS, *PAIR])
    rows = pd.DataFrame(
        dict(zip(KEYS, key, strict=True)) | _search(search, _printed(reference, key))
        for key, search in runs.groupby(KEYS, dropna=False, sort=False)
    )
    return Table(
        "FedSWE, the search behind Table 6: best learning rates after the searched rounds",
        rows,
        [
            "Algorithm",
            "Best eta_0",
            "Best eta_g",
            "Accuracy",
            "Table 6: eta_0, eta_g",
            "Its accuracy",
            "Table 6 is",
        ],
        [
            (_title(reading, facts), [_line(row) for _, row in part.iterrows()])
            for (reading, *facts), part in rows.groupby(["reading", "dataset", "ran_on"], sort=False)
        ],
        notes=[
            "Test accuracy in percent of the server's model, mean of the last rounds of one run a pair.",
            "gFedAvg has no eta_g, its server step is the stretch; Table 6 has neither it nor FedVARP.",
            "One run a pair: pairs a point or so apart are not told apart.",
            "* The best pair is at the edge of the searched grid.",
            *not_comparable(rows),
        ],
    )


def _printed(reference: pd.DataFrame, key: Any) -> dict[str, float]:
    """The printed rates of one line; none where the table has no such line."""
    facts = dict(zip(KEYS, key, strict=True))
    lines = reference[
        (reference["dataset"] == facts["dataset"]) & (reference["algorithm"] == facts["algorithm"])
    ]
    return dict(zip(lines["metric"], lines["value"], strict=False))


def _search(runs: pd.DataFrame, printed: Mapping[str, float]) -> dict[str, Any]:
    found = runs[runs["status"] == "ok"]
    facts: dict[str, Any] = {"searched": len(runs), "diverged": int((runs["status"] == "diverged").sum())}
    facts["missing"] = int((runs["status"] == "missing").sum())
    best = found.loc[found["accuracy"].idxmax()] if len(found) else None
    facts |= {f"best_{rate}": None if best is None else best[rate] for rate in PAIR}
    facts["at_edge"] = best is not None and any(
        runs[rate].nunique() > 1 and best[rate] in (runs[rate].min(), runs[rate].max()) for rate in PAIR
    )
    facts["best_accuracy_percent"] = None if best is None else 100 * best["accuracy"]
    facts |= {f"table6_{rate}": printed.get(rate) for rate in PAIR}
    own = found[(found[PAIR] == [printed.get(rate, float("nan")) for rate in PAIR]).all(axis=1)]
    facts["table6_accuracy_percent"] = 100 * own["accuracy"].item() if len(own) else None
    return facts


def _title(reading: str, facts: list[str]) -> str:
    dataset, ran_on = facts
    name = display(dataset) if dataset == ran_on else f"{display(ran_on)} for {display(dataset)}"
    return f"{name}, reading {reading}"


def _line(row: "pd.Series[Any]") -> list[Cell]:
    name = label(row["algorithm"], row["k_over_m"]) + (" *" if row["at_edge"] else "")
    if pd.isna(row["best_accuracy_percent"]):
        return [Cell(name), *(Cell("none"),) * 2, Cell(_lost(row)), *(Cell(""),) * 3]
    stretch = row["algorithm"] == "gfedavg"
    texts = [f"{row['best_local_lr']:g}", "" if stretch else f"{row['best_global_lr']:g}"]
    texts.append(f"{row['best_accuracy_percent']:.1f}" + (f" ({lost})" if (lost := _lost(row)) else ""))
    if pd.isna(row["table6_local_lr"]):
        return [Cell(text) for text in (name, *texts, "none", "", "")]
    texts.append(f"{row['table6_local_lr']:g}, {row['table6_global_lr']:g}")
    if pd.isna(row["table6_accuracy_percent"]):
        return [Cell(text) for text in (name, *texts, "no result", "")]
    behind = row["best_accuracy_percent"] - row["table6_accuracy_percent"]
    verdict = "the best" if behind == 0 else f"{behind:.1f} points behind"
    return [Cell(text) for text in (name, *texts, f"{row['table6_accuracy_percent']:.1f}", verdict)]


def _lost(row: "pd.Series[Any]") -> str:
    counts = (f"{row[word]}/{row['searched']} {word}" for word in ("diverged", "missing") if row[word])
    return ", ".join(counts)
