"""Comparing two results of a tier: which cells changed, and by how much what is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedrepro.core import registry
from fedrepro.errors import FedreproError
from fedrepro.outputs.bundle import results
from fedrepro.outputs.collected import read_collected
from fedrepro.presentation import training
from fedrepro.provenance.files import read_json
from fedrepro.provenance.header import header
from fedrepro.stats.intervals import interval

PERCENT = 100
MAX_LISTED = 10  # lines of a target
LABELS = ["paper_dataset", "reading"]
NOT_SPEC = {"cell", "status", "mixed_environments", "seed", "accuracy"}


@dataclass(frozen=True)
class Cells:
    """Ids of an experiment's cells by what became of them; ``identical``: the same metrics, by SHA-256."""

    identical: frozenset[str]
    changed: frozenset[str]
    new: frozenset[str]
    gone: frozenset[str]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Numbers of cells, in the order of the fields."""
        return len(self.identical), len(self.changed), len(self.new), len(self.gone)


@dataclass(frozen=True)
class Difference:
    """Final test accuracy, new minus old, in points: its mean over pairs and the limits of 95 %.

    ``n`` is the number of seeds; the limits are NaN below two.
    """

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class TargetDifference:
    """A figure or table: the difference over all its lines, each of its lines, and runs without partner."""

    total: Difference | None
    lines: Mapping[str, Difference]
    pairs: int
    unpaired: int


@dataclass(frozen=True)
class Comparison:
    """What became of the experiments, and of the targets with trained cells that both sides have."""

    experiments: Mapping[str, Cells]
    targets: Mapping[str, TargetDifference]


def compare(old: Path, new: Path) -> Comparison:
    """Compare results, each a folder ``results/<tier>`` or a bundle.

    Two runs are paired when they are the same cell, else when they agree in seed, labels and every field of
    the specification that varies within the experiment on both sides: so a value that was changed everywhere
    or for one algorithm does not part them.

    Raises
    ------
    FedreproError
        If a side holds no results, or a file of it is damaged.
    """
    with results(old) as before, results(new) as after:
        cells = {side: _cells(side) for side in (before, after)}
        names = sorted(cells[before].keys() | cells[after].keys())
        experiments = {
            name: _changes(cells[before].get(name, {}), cells[after].get(name, {})) for name in names
        }
        trained = [
            name
            for name in names
            if any(cell.startswith("train-") for cell in cells[before].get(name, {}))
            and any(cell.startswith("train-") for cell in cells[after].get(name, {}))
        ]
        pairs = {name: _pairs(_runs(before, name), _runs(after, name)) for name in trained}
        targets = {}
        for kind in ("figure", "table"):
            for target in registry.names(kind):
                needs = [name for name in header(kind, target).constant("NEEDS") if name in pairs]
                if needs:
                    targets[target] = _difference([pairs[name] for name in needs])
    return Comparison(experiments, targets)


def print_comparison(found: Comparison, old: Path, new: Path) -> None:
    """Experiments with their cells, then targets with their differences."""
    print(f"old: {old}\nnew: {new}\n")
    print(f"{'experiment':<28}{'identical':>10}{'changed':>9}{'new':>6}{'gone':>6}")
    totals = [0, 0, 0, 0]
    for name, cells in found.experiments.items():
        print("{:<28}{:>10}{:>9}{:>6}{:>6}".format(name, *cells.counts))
        totals = [total + count for total, count in zip(totals, cells.counts, strict=True)]
    print("{:<28}{:>10}{:>9}{:>6}{:>6}".format("in all", *totals))
    print("\nFinal test accuracy, new minus old, in points, paired by seed, with 95 % intervals")
    for name, target in found.targets.items():
        alone = f", {target.unpaired} runs without a partner" if target.unpaired else ""
        print(f"{name}: {target.pairs} pairs, {_words(target.total)}{alone}")
        moved = {line: item for line, item in target.lines.items() if item.mean != 0}
        largest = sorted(moved, key=lambda line: -abs(moved[line].mean))
        for line in largest[:MAX_LISTED]:
            print(f"  {line}: {_words(moved[line])}")
        if len(largest) > MAX_LISTED:
            print(f"  and {len(largest) - MAX_LISTED} more lines that differ")


def _words(difference: Difference | None) -> str:
    if difference is None:
        return "none to compare"
    seeds = f"{difference.n} seed{'s' if difference.n != 1 else ''}"
    if difference.n < 2:
        return f"{difference.mean:+.3f} ({seeds}: no interval)"
    return f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}] ({seeds})"


def _cells(folder: Path) -> dict[str, dict[str, str]]:
    """SHA-256 of the metrics by cell, per experiment."""
    out = {}
    for path in sorted(folder.glob("collected/*.cells.json")):
        facts = read_json(path)
        try:
            out[facts["experiment"]] = {
                cell: manifest["metrics"]["sha256"] for cell, manifest in facts["cells"].items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise FedreproError(f"{path} is damaged ({error!r}); collect the experiment again") from error
    if not out:
        raise FedreproError(f"{folder}/collected holds no <experiment>.cells.json; run snakemake first")
    return out


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> Cells:
    both = old.keys() & new.keys()
    identical = {cell for cell in both if old[cell] == new[cell]}
    return Cells(
        frozenset(identical),
        frozenset(both - identical),
        frozenset(new.keys() - both),
        frozenset(old.keys() - both),
    )


def _runs(folder: Path, experiment: str) -> pd.DataFrame:
    """One row a run and label of the server's model: specification, and final test accuracy in points."""
    (collected,) = read_collected([folder / "collected" / f"{experiment}.parquet"]).values()
    frame = training.tidy(collected.present)
    frame = frame[(frame["split"] == "test") & (frame["evaluated"] == "server")].copy()
    keys = ["cell", *LABELS]
    for name in LABELS:  # empty where a cell has none; an older version knew no reading
        frame[name] = frame[name].fillna("").astype(str) if name in frame else ""
    final = training.final_window(frame, keys).drop(columns=["seed", "status"])
    facts = frame.drop(columns="accuracy").drop_duplicates(keys)
    runs = facts.merge(final, on=keys).dropna(subset="accuracy")
    runs = runs.assign(accuracy=PERCENT * runs["accuracy"])
    metrics = {"round", "evaluated", "split", "loss", "consensus_error", "active"}
    return runs.drop(columns=[name for name in metrics if name in runs])


def _pairs(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """One row a pair: ``line``, ``seed``, ``old``, ``new``; a run without partner has only one of both."""
    varying = [
        name
        for name in old.columns
        if name in new and name not in NOT_SPEC and min(_values(old, name), _values(new, name)) > 1
    ]
    labels = [name for name in LABELS if name in varying]
    sides = []
    for runs in (old, new):
        side = runs.drop_duplicates(["cell", *labels])
        line = side[varying].apply(_line, axis=1).astype(str) if varying else "all runs"
        accuracies = pd.DataFrame({"line": line, "seed": side["seed"], "accuracy": side["accuracy"]})
        sides.append(accuracies.set_index(pd.MultiIndex.from_frame(side[["cell", *labels]])))
    same = sides[0].index.intersection(sides[1].index)
    by_cell = (
        sides[1]
        .loc[same, ["line", "seed"]]
        .assign(old=sides[0].loc[same, "accuracy"], new=sides[1].loc[same, "accuracy"])
    )
    rest = [side.drop(index=same) for side in sides]
    on = ["line", "seed"]
    # of several runs that the varying fields do not tell apart none is anyone's partner
    clear = [side[~side.duplicated(on, keep=False)] for side in rest]
    unclear = [side[side.duplicated(on, keep=False)] for side in rest]
    by_line = (
        clear[0]
        .rename(columns={"accuracy": "old"})
        .merge(clear[1].rename(columns={"accuracy": "new"}), on=on, how="outer")
    )
    alone = [
        side.rename(columns={"accuracy": name}) for side, name in zip(unclear, ("old", "new"), strict=True)
    ]
    parts = [part for part in (by_cell, by_line, *alone) if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else by_cell.reset_index(drop=True)


def _values(frame: pd.DataFrame, name: str) -> int:
    return int(frame[name].astype(str).nunique())


def _line(row: "pd.Series[Any]") -> str:
    words = [str(value) if name in (*LABELS, "algorithm", "dynamics") else f"{name}={value}"
             for name, value in row.items() if not pd.isna(value) and value != ""]  # fmt: skip
    return ", ".join(words)


def _difference(parts: Sequence[pd.DataFrame]) -> TargetDifference:
    frame = pd.concat(parts, ignore_index=True).reindex(columns=["line", "seed", "old", "new"])
    paired = frame.dropna(subset=["old", "new"])
    paired = paired.assign(difference=paired["new"] - paired["old"])
    lines = {str(line): _summary(group["difference"]) for line, group in paired.groupby("line", sort=False)}
    by_seed = paired.groupby("seed")["difference"].mean()  # seeds are independent, lines of a seed are not
    total = _summary(by_seed) if len(by_seed) else None
    return TargetDifference(total, lines, len(paired), len(frame) - len(paired))


def _summary(differences: "pd.Series[float]") -> Difference:
    low, high = interval(differences)
    return Difference(float(differences.mean()), low, high, len(differences))
