"""Published numbers: ``config/papers/<paper>/reference.csv``."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedrepro.errors import FedreproError
from fedrepro.plan.messages import unknown
from fedrepro.provenance.header import leaves, resolved

COLUMNS = ("target", "locator", "metric", "value", "spread", "spread_kind", "n", "decimals", "source")
OF_METRICS = ("split", "target_percent")  # columns that tell rows of one cell apart
SOURCES = ("own", "carried over")


def check_reference(
    path: Path, specs: Mapping[str, Sequence[Any]], needs: Mapping[str, Sequence[str]]
) -> None:
    """Every published number must belong to a cell that its target needs, in the paper's own grid.

    Columns other than `COLUMNS` and `OF_METRICS` name fields of a specification, e.g. ``dynamics`` or
    ``problem.d_max``. An empty ``value`` is one that the paper prints as never reached.

    Parameters
    ----------
    path : Path
        The file; a paper may have none.
    specs : mapping
        The specifications of each experiment at the paper's scale; one seed will do.
    needs : mapping
        The experiments that each target is made from, by the short name that the column ``target`` has.
    """
    if not path.exists():
        return
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or ())
        rows = list(reader)
    if lacking := [name for name in COLUMNS if name not in columns]:
        raise FedreproError(f"{path}: the columns {', '.join(lacking)} are missing")
    labels = [name for name in columns if name not in (*COLUMNS, *OF_METRICS)]
    known: dict[str, set[tuple[str, ...]]] = {}
    for experiment in {need for row in rows for need in needs.get(row["target"], ())}:
        cells = [dict(leaves(resolved(spec))) for spec in specs[experiment]]
        known[experiment] = {tuple(str(cell.get(label, "")) for label in labels) for cell in cells}
    for number, row in enumerate(rows, start=2):
        key = tuple(row[label] for label in labels)
        target = row["target"]
        if target not in needs:
            raise unknown(f"{path}, line {number}: column 'target'", "target", target, needs)
        if not any(_matches(key, cell) for need in needs[target] for cell in known[need]):
            raise FedreproError(
                f"{path}, line {number}: {'/'.join(filter(None, key))} is no cell of {target} at the "
                "paper's scale; correct the row or the grid"
            )
        if row["source"] not in SOURCES:
            raise FedreproError(
                f"{path}, line {number}: source {row['source']!r} is not one of {', '.join(SOURCES)}"
            )


def _matches(row: tuple[str, ...], cell: tuple[str, ...]) -> bool:
    return all(mine in ("", theirs) for mine, theirs in zip(row, cell, strict=True))
