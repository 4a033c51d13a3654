"""Metrics over closed forms, exact recursions and enumerations: the analyses of a paper's theory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedrepro.claims.data import Data, NoData, Where, matching, title
from fedrepro.claims.evidence import Part, Statement, metric
from fedrepro.presentation import training


def _chosen(data: Data, experiment: str, where: Where | None) -> pd.DataFrame:
    frame = matching(training.tidy(data.frame(experiment)), where or {})
    if frame.empty:
        raise NoData(f"{experiment} has no such rows")
    return frame


@metric
def checks(
    data: Data, experiment: str, check: Sequence[str], where: Where | None = None,
    tolerance: float = 1e-9, containing: str = "", vacuous: str = "",
) -> list[Part]:  # fmt: skip
    """Rows of a table of checks, by the name of the check and words that the quantity contains.

    ``tolerance``: allowed difference, absolute. ``vacuous``: why the statement holds whatever is computed.
    """
    frame = _chosen(data, experiment, {"check": list(check)} | dict(where or {}))
    frame = frame[frame["quantity"].str.contains(containing, regex=False)]
    if frame.empty:
        raise NoData(f"{experiment} has no check of {containing!r}")
    cases = [name for name in ("dynamics", "problem", "problem.d_max") if name in frame]
    return [
        Statement(
            "; ".join(
                filter(None, [title({n: row[n] for n in cases if row[n] == row[n]}), row["quantity"]])
            ),
            float(row["stated"]), float(row["computed"]), row["relation"], tolerance,
            vacuous=bool(vacuous), note="; ".join(filter(None, [row["where"], vacuous])),
        )
        for row in frame.to_dict("records")
    ]  # fmt: skip


@metric
def column(
    data: Data, experiment: str, name: str, stated: float, relation: Any = "=", tolerance: float = 0.0,
    where: Where | None = None,
) -> list[Part]:  # fmt: skip
    """Every value of a column stands in a relation to a number."""
    frame = _chosen(data, experiment, where)
    return [
        Statement(
            f"{row.get('algorithm', row['cell'])}: {name}", stated, float(row[name]), relation, tolerance
        )
        for row in frame.to_dict("records")
    ]


@metric
def two_columns(data: Data, experiment: str, name: str, against: str, relation: Any) -> list[Part]:
    """A column stands in a relation to another one in every row; the worst row is the part."""
    frame = _chosen(data, experiment, None)
    ratio = (frame[name] / frame[against]).to_numpy()
    worst = int(ratio.argmax() if relation in ("<", "<=") else ratio.argmin())
    text = f"{name} over {against}, worst of {len(frame)} rows"
    return [Statement(text, 1.0, float(ratio[worst]), relation)]


@metric
def monotone(
    data: Data, experiment: str, name: str, along: str, within: Sequence[str], falls: bool = True,
    where: Where | None = None, tolerance: float = 1e-12,
) -> list[Part]:  # fmt: skip
    """A column falls (or rises) along another one: per case, the largest step in the wrong direction."""
    parts: list[Part] = []
    for key, group in _chosen(data, experiment, where).groupby(list(within), sort=False):
        ordered = group.sort_values(along)
        if ordered[along].nunique() < 2:
            continue
        wrong = float(np.diff(ordered[name]).max() if falls else -np.diff(ordered[name]).min())
        words = f"{title(dict(zip(within, key, strict=True)))}: {name} along {along}"
        parts.append(Statement(words, 0.0, wrong, "<=", tolerance))
    if not parts:
        raise NoData(f"{experiment} has one value of {along} only")
    return parts


@metric
def fedavg_bias(data: Data) -> list[Part]:
    """Example 2: the mean output is 50 for equal probabilities, by the formula and by simulation, and only then.

    Simulated means are within three of their standard errors of the formula.
    """
    frame = _chosen(data, "fig02", None)
    equal = frame["p1"] == frame["p2"]
    parts: list[Part] = [
        Statement("formula at p1 = p2", 50.0, float(value)) for value in frame.loc[equal, "expected"].unique()
    ]
    apart = float(abs(frame.loc[~equal, "expected"] - 50).min())
    parts.append(Statement("formula at p1 != p2: smallest distance from 50", 0.0, apart, ">"))
    for step, group in frame.groupby("step_size"):
        error = abs(group["simulated"] - group["expected"]) / group["simulated_se"]
        share = float((error <= 3).mean())
        text = f"step {step:g}: share of {len(group)} simulated means within 3 standard errors"
        parts.append(Statement(text, 0.99, share, ">=", note=f"largest {error.max():.1f} standard errors"))
    return parts


@metric
def gap_closes(data: Data, schedule: str, below: float) -> list[Part]:
    """Figure 5: with k = m / 2 gradient and consensus distance end below a number; with k = 0 above it."""
    frame = _chosen(data, "fig05", {"schedule": schedule})
    last = frame[frame["round"] == frame["rounds"]]
    parts: list[Part] = []
    for row in last.to_dict("records"):
        relation: Any = "<" if row["k_over_m"] > 0 else ">="
        name = title({"algorithm": "fedswe", "k_over_m": row["k_over_m"]})
        for what, value in (
            ("gradient", abs(row["gradient"])),
            ("consensus distance", row["consensus_error"] ** 0.5),
        ):
            parts.append(Statement(f"{name}: {what} after the last round", below, float(value), relation))
    return parts
