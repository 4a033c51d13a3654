"""Metrics over the numbers that a paper prints, from its reference.csv alone: no run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from fedrepro.claims.data import Data, NoDataError, title
from fedrepro.claims.evidence import Relation, Statement, metric

UNAIDED = ("fedavg_active", "fedavg_all", "gfedavg", "fedau", "f3ast")
DYNAMICS = ("stationary", "staircase", "sine")
FIELDS = ("dynamics", "dataset", "dynamics.gamma", "partition.alpha", "target_percent", "split")
Cell = dict[str, Any]
Number = tuple[float, float]  # value and spread


def printed_cells(data: Data, target: str) -> Iterator[tuple[Cell, dict[str, Number]]]:
    """Per cell of a table its numbers by algorithm, ``fedswe0`` and ``fedswe1`` for k = 0 and k = m."""
    table = data.published[data.published["target"] == target]
    if table.empty:
        raise NoDataError(f"reference.csv has no {target}")
    keys = [key for key in FIELDS if table[key].notna().any()]
    for key, group in table.groupby(keys, sort=False, dropna=False):
        numbers = {}
        for row in group.to_dict("records"):
            k = row["algorithm.k_over_m"]
            numbers[row["algorithm"] + ("" if pd.isna(k) else f"{k:g}")] = (row["value"], row["spread"])
        yield dict(zip(keys, key, strict=True)), numbers


def _name(cell: Cell) -> str:
    return title({key: value for key, value in cell.items() if not pd.isna(value)})


def _lead(numbers: Mapping[str, Number], ours: str, rivals: Sequence[str]) -> tuple[float, str]:
    """Value of ours minus the best rival's, and that in units of the larger spread."""
    best = max((name for name in rivals if name in numbers), key=lambda name: numbers[name][0])
    lead = round(numbers[ours][0] - numbers[best][0], 6)
    spread = max(numbers[ours][1], numbers[best][1])
    return lead, f"{ours} {numbers[ours][0]:g}, {best} {numbers[best][0]:g}; {lead / spread:.1f} spreads"


@metric
def printed_lead(
    data: Data, targets: Sequence[str], ours: Sequence[str], rivals: Sequence[str],
    splits: Sequence[str] = ("train", "test"), only: Mapping[str, Any] | None = None,
    skip: Mapping[str, Any] | None = None, level: bool = False,
) -> list[Statement]:  # fmt: skip
    """In every cell the worst of ``ours`` is above the best rival; a tie is no win.

    ``only``, ``skip``: cells to take or to leave out. ``level``: not below it by more than the larger spread.
    """
    parts = []
    for target in targets:
        for cell, numbers in printed_cells(data, target):
            if cell.get("split") not in splits or not _fits(cell, only) or (skip and _fits(cell, skip)):
                continue
            worst = min((name for name in ours if name in numbers), key=lambda name: numbers[name][0])
            lead, note = _lead(numbers, worst, rivals)
            stated, relation = 0.0, ">"
            if level:
                best = max((name for name in rivals if name in numbers), key=lambda name: numbers[name][0])
                stated, relation = -max(numbers[worst][1], numbers[best][1]), ">="
            words = _name(cell) if len(targets) == 1 else f"{title({'': target})}: {_name(cell)}"
            parts.append(Statement(words, stated, lead, relation, note=note))  # type: ignore[arg-type]
    return parts


def published_value(data: Data, metric: str) -> float:
    """The one value of a metric of reference.csv."""
    values = data.published.loc[data.published["metric"] == metric, "value"]
    if len(values) != 1:
        raise NoDataError(f"reference.csv has {len(values)} values of {metric}, not one")
    return float(values.iloc[0])


def _fits(cell: Cell, wanted: Mapping[str, Any] | None) -> bool:
    return all(
        cell.get(key) in value if isinstance(value, list) else cell.get(key) == value
        for key, value in (wanted or {}).items()
    )


@metric
def printed_close(data: Data, target: str, pair: Sequence[str], below: float, only: Cell) -> list[Statement]:
    """Two algorithms differ by less than ``below`` in the cells of ``only``."""
    parts = []
    for cell, numbers in printed_cells(data, target):
        if _fits(cell, only):
            gap = abs(numbers[pair[0]][0] - numbers[pair[1]][0])
            parts.append(Statement(_name(cell), below, round(gap, 6), "<"))
    return parts


@metric
def printed_harder(data: Data, target: str) -> list[Statement]:
    """Test accuracy falls from stationary over staircase to sine: one chain per algorithm and data set."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for cell, numbers in printed_cells(data, target):
        if cell["split"] == "test":
            for algorithm, (value, _) in numbers.items():
                values.setdefault((algorithm, cell["dataset"]), {})[cell["dynamics"]] = value
    parts = []
    for (algorithm, dataset), chain in values.items():
        row = [chain[name] for name in DYNAMICS]
        smallest = round(min(a - b for a, b in pairwise(row)), 6)
        text = f"{algorithm}; {title({'dataset': dataset})}"
        parts.append(Statement(text, 0.0, smallest, ">", note=", ".join(f"{value:g}" for value in row)))
    return parts


@metric
def printed_rounds(
    data: Data, ours: str, against: str, quarters: Sequence[int], datasets: Sequence[str],
    below: float = math.inf, above: float = 0.0,
) -> list[Statement]:  # fmt: skip
    """Ratio of the first rounds of Table 7: above one number and below another; 0 rounds count as 1."""
    levels: dict[str, list[float]] = {}
    for cell, _ in printed_cells(data, "table7"):
        levels.setdefault(cell["dataset"], []).append(cell["target_percent"])
    parts = []
    for cell, numbers in printed_cells(data, "table7"):
        quarter = 1 + sorted(levels[cell["dataset"]]).index(cell["target_percent"])
        if cell["dataset"] not in datasets or quarter not in quarters:
            continue
        one, two = numbers[ours][0], numbers[against][0]
        ratio = max(one, 1) / max(two, 1)
        text = f"{title({'dataset': cell['dataset']})}, {cell['target_percent']:g} %"
        note = f"{one:g} and {two:g} rounds"
        if above:
            parts.append(Statement(f"{text}: slower", above, ratio, ">", note=note))
        if below < math.inf:
            parts.append(Statement(f"{text}: below {below:g} times", below, ratio, "<", note=note))
    return parts


@metric
def printed_targets(data: Data) -> list[Statement]:
    """Targets of Table 7 are quarters of Table 2's best, cut to tens; rounds are on a grid of 20."""
    best: dict[str, float] = {}
    for cell, numbers in printed_cells(data, "table2"):
        if cell["split"] == "test" and cell["dynamics"] == "sine":
            best[cell["dataset"]] = max(value for value, _ in numbers.values())
    found: dict[str, list[float]] = {}
    off = []
    for cell, numbers in printed_cells(data, "table7"):
        found.setdefault(cell["dataset"], []).append(cell["target_percent"])
        off += [value for value, _ in numbers.values() if not math.isnan(value) and value % 20]
    parts = []
    for dataset, percents in found.items():
        top = 10 * math.floor(best[dataset] / 10)
        for quarter, percent in enumerate(sorted(percents), start=1):
            text = f"{title({'dataset': dataset})}: target {quarter} of 4"
            parts.append(Statement(text, top * quarter / 4, percent, note=f"best {best[dataset]:g} %"))
    text = "entries that are no multiple of 20 rounds"
    note = f"{len(off)} entries of {', '.join(f'{value:g}' for value in sorted(set(off)))} rounds"
    return [*parts, Statement(text, 0.0, float(len(off)), "=", note=note)]


@metric
def printed_trend(data: Data, target: str, along: str) -> list[Statement]:
    """Every algorithm's accuracy rises from each value of a column to the next, train and test."""
    values: dict[tuple[str, str], dict[float, float]] = {}
    for cell, numbers in printed_cells(data, target):
        for algorithm, (value, _) in numbers.items():
            values.setdefault((algorithm, cell["split"]), {})[cell[along]] = value
    parts = []
    for (algorithm, split), row in values.items():
        ordered = [row[key] for key in sorted(row)]
        rise = round(min(b - a for a, b in pairwise(ordered)), 6)
        note = ", ".join(f"{value:g}" for value in ordered)
        parts.append(Statement(f"{algorithm}; {split}", 0.0, rise, ">", note=note))
    return parts


@metric
def printed_shared(data: Data, targets: Sequence[str]) -> list[Statement]:
    """A cell that stands in several tables has the same numbers in all of them."""
    shared = {"dataset": "svhn", "dynamics": "sine", "dynamics.gamma": 0.3, "partition.alpha": 0.1}
    seen: dict[tuple[str, str], dict[str, Number]] = {}
    for target in targets:
        for cell, numbers in printed_cells(data, target):
            if all(
                pd.isna(cell.get(key, value)) or cell.get(key, value) == value
                for key, value in shared.items()
            ):
                for algorithm, number in numbers.items():
                    seen.setdefault((algorithm, cell["split"]), {})[target] = number
    parts = []
    for (algorithm, split), found in seen.items():
        if len(found) > 1:
            apart = max(
                abs(a[i] - b[i]) for a in found.values() for b in found.values() for i in (0, 1)
            )  # values and spreads
            note = "; ".join(f"{target} {value:g} ± {spread:g}" for target, (value, spread) in found.items())
            parts.append(Statement(f"{algorithm}; {split}: equal", 0.0, round(apart, 6), "=", note=note))
    return parts


@metric
def printed_train_above_test(data: Data, targets: Sequence[str]) -> list[Statement]:
    """Training accuracy is at least test accuracy, in every cell."""
    parts = []
    for target in targets:
        pairs: dict[str, dict[str, float]] = {}
        for cell, numbers in printed_cells(data, target):
            for algorithm, (value, _) in numbers.items():
                name = f"{target}: {algorithm}; {_name({k: v for k, v in cell.items() if k != 'split'})}"
                pairs.setdefault(name, {})[cell["split"]] = value
        for name, pair in pairs.items():
            note = f"train {pair['train']:g}, test {pair['test']:g}"
            gap = round(pair["train"] - pair["test"], 6)
            parts.append(Statement(name, 0.0, gap, ">=", note=note))
    return parts


@metric
def arithmetic(data: Data, statements: Sequence[Mapping[str, Any]]) -> list[Statement]:
    """Sums and counts of numbers that a paper prints in its text; they stand in the row of the claim.

    Each statement: ``what``, numbers to ``sum`` or words to ``count``, a ``relation``, and ``stated``, a
    number or a metric of reference.csv that has one value.
    """
    parts = []
    for item in statements:
        computed = float(sum(item["sum"])) if "sum" in item else float(len(set(item["count"])))
        relation: Relation = item.get("relation", "=")
        note = (
            " + ".join(f"{value:g}" for value in item["sum"]) if "sum" in item else ", ".join(item["count"])
        )
        stated = item["stated"]
        stated = published_value(data, stated) if isinstance(stated, str) else float(stated)
        parts.append(Statement(item["what"], stated, computed, relation, note=note))
    return parts
