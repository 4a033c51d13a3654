"""Metrics over closed forms, exact recursions and enumerations: the analyses of a paper's theory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from fedrepro.claims.data import Data, NoDataError, Where, matching, title
from fedrepro.claims.evidence import Part, Statement, metric
from fedrepro.presentation import training


def _chosen(data: Data, experiment: str, where: Where | None) -> pd.DataFrame:
    frame = matching(training.tidy(data.frame(experiment)), where or {})
    if frame.empty:
        raise NoDataError(f"{experiment} has no such rows")
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
        raise NoDataError(f"{experiment} has no check of {containing!r}")
    cases = [name for name in ("dynamics", "dynamics.inside", "problem", "problem.d_max") if name in frame]
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
    data: Data, experiment: str, column: str, stated: float, relation: Any = "=", tolerance: float = 0.0,
    where: Where | None = None,
) -> list[Part]:  # fmt: skip
    """Every value of a column stands in a relation to a number."""
    frame = _chosen(data, experiment, where)
    fields = [
        name for name in ("algorithm", "period", "p_first", "k", "participation.step_size") if name in frame
    ]
    return [
        Statement(
            f"{title({name: row[name] for name in fields})}: {column}", stated, float(row[column]), relation,
            tolerance,
        )
        for row in frame.to_dict("records")
    ]  # fmt: skip


@metric
def two_columns(data: Data, experiment: str, column: str, against: str, relation: Any) -> list[Part]:
    """A column stands in a relation to another one, in every row."""
    return [
        Statement(
            f"{title({'algorithm': row['algorithm']})}: {column} and {against}",
            float(row[against]), float(row[column]), relation,
        )
        for row in _chosen(data, experiment, None).to_dict("records")
    ]  # fmt: skip


@metric
def monotone(
    data: Data, experiment: str, column: str, along: str, within: Sequence[str], equal: str = "",
    tolerance: float = 1e-9,
) -> list[Part]:  # fmt: skip
    """A column never rises along another one: per case, the largest step upwards.

    ``equal``: a column that must equal the one along which it falls, so that one thing alone is varied.
    """
    frame = _chosen(data, experiment, None)
    if equal:
        frame = frame[frame[equal] == frame[along]]
    parts: list[Part] = []
    for key, group in frame.groupby(list(within), sort=False):
        ordered = group.sort_values(along)
        if ordered[along].nunique() > 1:
            rise = float(np.diff(ordered[column]).max())
            words = f"{title(dict(zip(within, key, strict=True)))}: largest rise along {along}"
            parts.append(Statement(words, 0.0, rise, "<=", tolerance))
    if not parts:
        raise NoDataError(f"{experiment} has one value of {along} only")
    return parts


@metric
def fedavg_bias(data: Data) -> list[Part]:
    """Example 2: the mean output is 50 for equal probabilities, by formula and simulation, and only then.

    The largest error of a simulated mean may be as improbable as three standard errors are for a single one.
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
        rate = 2 * stats.norm.sf(3) / len(group)
        limit = float(stats.t.isf(rate / 2, int(group["analysis.trials"].iloc[0]) - 1))
        text = f"step {step:g}: largest of {len(group)} errors of simulated means, in standard errors"
        parts.append(Statement(text, limit, float(error.max()), "<="))
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
