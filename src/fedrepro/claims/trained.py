"""Metrics over training runs. ``within`` names the columns whose values form the cells of a claim.

Differences are paired by seed: runs of one seed share partition, availability, initial model and batches.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedrepro.claims.data import Data, NoDataError, Where, matching, title
from fedrepro.claims.evidence import Measured, Part, Sample, Statement, metric
from fedrepro.stats.intervals import kendall

SPLIT = ("test",)
PANELS = ("paper_dataset", "dynamics.inside")
K = "k_over_m"


def _list(one_or_more: Any) -> list[Any]:
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]


def _cells(runs: pd.DataFrame, within: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Name and runs of every cell; without columns all runs are one cell."""
    if not within:
        yield "", runs
        return
    for key, group in runs.groupby(list(within), sort=False, dropna=False):
        yield title(dict(zip(within, key, strict=True))), group


def _per_seed(runs: pd.DataFrame, median: bool = False) -> "pd.Series[float]":
    groups = runs.groupby("seed")["value"]
    return groups.median() if median else groups.mean()


def _some(parts: list[Part], what: str) -> list[Part]:
    if not parts:
        raise NoDataError(f"no runs of {what}")
    return parts


@metric
def difference(
    data: Data, of: Any, ours: Any, against: Any, within: Sequence[str], against_of: Any = None,
    sign: int = 1, splits: Sequence[str] = SPLIT, where: Where | None = None, log: bool = False,
    median: bool = False,
) -> list[Part]:  # fmt: skip
    """Statistic of ``ours`` minus that of ``against``, times ``sign``; of its logarithm with ``log``.

    ``ours`` and ``against`` are choices of runs, or lists of them: every pair is a part. ``against_of``: the
    statistic of the other side where it is another one. ``median``: that of the rivals in one choice counts,
    not their mean.
    """
    parts: list[Part] = []
    for split in splits:
        left = matching(data.runs(of, split), where or {})
        right = matching(data.runs(against_of or of, split), where or {})
        for mine in _list(ours):
            for other in _list(against):
                rivals = dict(_cells(matching(right, other), within))
                for name, runs in _cells(matching(left, mine), within):
                    if name not in rivals:
                        continue
                    one, two = _per_seed(runs), _per_seed(rivals[name], median)
                    one, two = (np.log(one), np.log(two)) if log else (one, two)
                    words = [name, f"{title(mine)} against {title(other)}"]
                    words += [split] if len(splits) > 1 else []
                    parts.append(
                        Sample("; ".join(filter(None, words)), _paired(one, two, sign), _unit(of, log))
                    )
    return _some(parts, f"{title(_list(ours)[0])} and {title(_list(against)[0])}")


def _paired(one: "pd.Series[float]", two: "pd.Series[float]", sign: int) -> Any:
    """Differences over the seeds that both have."""
    seeds = sorted(set(one.index) & set(two.index))
    return sign * (one.loc[seeds].to_numpy() - two.loc[seeds].to_numpy())


def _unit(of: Any, log: bool) -> str:
    name = of if isinstance(of, str) else of["name"]
    if log:
        return "log ratio"
    return {"final": "points", "peak": "points", "roughness": "points", "rounds": "rounds"}.get(name, "log10")


@metric
def trend(
    data: Data, of: Any, along: str, within: Sequence[str], where: Where | None = None, sign: int = 1,
    order: Sequence[str] | None = None, splits: Sequence[str] = SPLIT,
) -> list[Part]:  # fmt: skip
    """Kendall's tau of a statistic along a column, per seed, times ``sign``; ``order`` ranks words."""
    parts: list[Part] = []
    for split in splits:
        for name, runs in _cells(matching(data.runs(of, split), where or {}), within):
            rank = runs[along] if order is None else runs[along].map(list(order).index)
            taus = [
                sign * kendall(rank.loc[group.index].astype(float), group["value"])
                for _, group in runs.groupby("seed")
                if len(group) > 1 and group["value"].notna().all()
            ]
            if taus:
                words = [name] + ([split] if len(splits) > 1 else [])
                parts.append(Sample("; ".join(filter(None, words)) or "all", np.array(taus), "tau"))
    return _some(parts, f"several values of {along}")


@metric
def level(
    data: Data, of: Any, within: Sequence[str], where: Where | None = None, sign: int = 1
) -> list[Part]:
    """A statistic itself, per seed, times ``sign``."""
    parts: list[Part] = [
        Sample(name or "all", sign * _per_seed(runs).to_numpy(), _unit(of, False))
        for name, runs in _cells(matching(data.runs(of), where or {}), within)
    ]
    return _some(parts, title(where or {}))


@metric
def interior_peak(data: Data, within: Sequence[str] = PANELS, where: Where | None = None) -> list[Part]:
    """Final accuracy at k = m minus that at the smallest k > 0 and at the largest; where its maximum is.

    The largest k must exceed 4 m, or the maximum could not be seen to be inside.
    """
    runs = matching(data.runs("final"), {**(where or {}), "algorithm": "fedswe"})
    runs = runs[runs[K] > 0]
    parts: list[Part] = []
    for name, cell in _cells(runs, within):
        by_k = {k: _per_seed(group) for k, group in cell.groupby(K)}
        smallest, largest = min(by_k), max(by_k)
        if 1.0 not in by_k or smallest == 1.0 or largest <= 4.0:
            continue
        for other in (smallest, largest):
            text = f"{name}; k = m against k = {other:g} m"
            parts.append(Sample(text, _paired(by_k[1.0], by_k[other], 1), "points"))
        best = max(by_k, key=lambda k: by_k[k].mean())
        text = f"{name}; best k over m is within a factor 4 of 1: |log4|"
        parts.append(Statement(text, 1.0, abs(math.log(best, 4)), "<=", note=f"best at k = {best:g} m"))
    return _some(parts, "k = m with a smaller and a larger k")


@metric
def best_compromise(
    data: Data, level: float, points: float, ratio: float, within: Sequence[str] = PANELS
) -> list[Part]:
    """How far k = m is from being beaten on accuracy and on rounds at once by another k, in margins.

    Beaten means an accuracy higher by more than ``points`` and fewer rounds to ``level`` by more than the
    factor ``ratio``. Per seed the larger of the two reserves counts, each in units of its margin.
    """
    accuracy = matching(data.runs("final"), {"algorithm": "fedswe"})
    slow = matching(data.runs({"name": "rounds", "level": level}), {"algorithm": "fedswe"})
    parts: list[Part] = []
    speeds = dict(_cells(slow, within))
    for name, cell in _cells(accuracy, within):
        a = {k: _per_seed(group) for k, group in cell.groupby(K)}
        r = {k: np.log(_per_seed(group)) for k, group in speeds[name].groupby(K)}
        for k in a:
            if k == 1.0 or 1.0 not in a:
                continue
            first = _paired(a[1.0], a[k], 1) / points + 1
            second = _paired(r[k], r[1.0], 1) / math.log(ratio) + 1
            parts.append(Sample(f"{name}; k = m against k = {k:g} m", np.fmax(first, second), "margins"))
    return _some(parts, "k = m and another k")


@metric
def published_accuracy(data: Data, target: str, splits: Sequence[str] = ("train", "test")) -> list[Part]:
    """Final accuracy of every cell of Table 2 beside the published one."""
    keys = ["dynamics", "dataset", "algorithm", K]
    table = data.published[data.published["target"] == target].rename(columns={"algorithm.k_over_m": K})
    parts: list[Part] = []
    for split in splits:
        runs = data.runs("final", split)
        for row in table[table["split"] == split].to_dict("records"):
            choice = {key: row[key] for key in keys if not pd.isna(row[key])}
            found = matching(runs, {"paper_dataset" if k == "dataset" else k: v for k, v in choice.items()})
            if len(found):
                parts.append(
                    Measured(
                        f"{title(choice)}; {split}", _per_seed(found).to_numpy(), row["value"], row["spread"],
                        int(row["n"]), int(row["decimals"]), pool=str(row["algorithm"]),
                    )
                )  # fmt: skip
    return _some(parts, target)


def _targets(data: Data, quarters: Sequence[int], datasets: Sequence[str]) -> Iterator[tuple[str, float]]:
    table = data.published[data.published["target"] == "table7"]
    for dataset in datasets:
        levels = sorted(table.loc[table["dataset"] == dataset, "target_percent"].unique())
        for quarter in quarters:
            yield dataset, float(levels[quarter - 1])


def _first_rounds(data: Data, ours: Where, dataset: str, percent: float, of: str = "rounds") -> pd.DataFrame:
    where = {"paper_dataset": dataset, "dynamics": "sine"}
    return matching(data.runs({"name": of, "level": percent}), dict(ours) | where)


@metric
def rounds_ratio(
    data: Data, ours: Where, against: Where, quarters: Sequence[int], datasets: Sequence[str],
    pooled: bool = False,
) -> list[Part]:  # fmt: skip
    """Log ratio of the rounds to the targets of Table 7; ``pooled``: its mean over targets, per seed."""
    parts: list[Sample] = []
    for dataset, percent in _targets(data, quarters, datasets):
        one = _per_seed(_first_rounds(data, ours, dataset, percent))
        two = _per_seed(_first_rounds(data, against, dataset, percent))
        if len(one) and len(two):
            text = f"{title({'dataset': dataset})}, {percent:g} %"
            parts.append(Sample(text, _paired(np.log(one), np.log(two), 1), "log ratio"))
    if pooled and parts:
        mean = np.mean([part.values for part in parts], axis=0)
        parts = [Sample(f"geometric mean of {len(parts)} entries", mean, "log ratio")]
    return _some(list(parts), f"{title(ours)} and {title(against)}")


@metric
def published_rounds(data: Data, ratio: float, within_rounds: float) -> list[Part]:
    """Mean over seeds of the first rounds beside Table 7: within a factor, or a number of rounds."""
    table = data.published[(data.published["target"] == "table7") & data.published["value"].notna()]
    parts: list[Part] = []
    for row in table.to_dict("records"):
        ours = {"algorithm": row["algorithm"]}
        ours |= {} if pd.isna(row["algorithm.k_over_m"]) else {K: row["algorithm.k_over_m"]}
        found = _per_seed(_first_rounds(data, ours, row["dataset"], row["target_percent"]))
        if not len(found):
            continue
        mean, printed = float(found.mean()), float(row["value"])
        factor = math.exp(abs(math.log(max(mean, 1) / max(printed, 1))))
        margin = min(factor / ratio, abs(mean - printed) / within_rounds)
        text = f"{title(ours)}; {title({'dataset': row['dataset']})}, {row['target_percent']:g} %"
        parts.append(Statement(text, 1.0, margin, "<=", note=f"ours {mean:g}, published {printed:g}"))
    return _some(parts, "Table 7")


@metric
def never_reached(data: Data, ours: Where, quarter: int, datasets: Sequence[str]) -> list[Part]:
    """How many runs reach a target of Table 7: none, as claimed."""
    parts: list[Part] = []
    for dataset, percent in _targets(data, [quarter], datasets):
        found = _first_rounds(data, ours, dataset, percent, of="reached")["value"]
        if len(found):
            text = f"{title({'dataset': dataset})}: runs of {len(found)} that reach {percent:g} %"
            parts.append(Statement(text, 0.0, float(found.sum()), "="))
    return _some(parts, title(ours))
