"""Published numbers: ``config/papers/<paper>/reference.csv``."""

import csv
from pathlib import Path
from typing import Any

from fedrepro.errors import FedreproError
from fedrepro.provenance.header import leaves, resolved

COLUMNS = ("target", "locator", "metric", "value", "spread", "spread_kind", "n", "decimals", "source")
OF_METRICS = ("split",)  # columns that tell rows of one cell apart
SOURCES = ("own", "carried over")


def check_reference(path: Path, paper: str, table_specs: dict[str, list[Any]]) -> None:
    """Every published number must belong to a cell of the paper's own grid.

    Columns other than `COLUMNS` name fields of a specification, e.g. ``dynamics`` or ``problem.d_max``.

    Parameters
    ----------
    path : Path
        The file; a paper may have none.
    paper : str
        Short name of the paper.
    table_specs : dict
        The specifications of each experiment at the paper's scale, by short name.
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
    wanted = {row["target"]: table_specs.get(row["target"], []) for row in rows}
    fields = {name: [dict(leaves(resolved(spec))) for spec in specs] for name, specs in wanted.items()}
    known = {
        name: {tuple(str(cell.get(label, "")) for label in labels) for cell in cells}
        for name, cells in fields.items()
    }
    for number, row in enumerate(rows, start=2):
        key = tuple(row[label] for label in labels)
        if not any(_matches(key, cell) for cell in known.get(row["target"], ())):
            raise FedreproError(
                f"{path}, line {number}: {'/'.join(filter(None, key))} is no cell of "
                f"{paper}_{row['target']} at the paper's scale; correct the row or the grid"
            )
        if row["source"] not in SOURCES:
            raise FedreproError(
                f"{path}, line {number}: source {row['source']!r} is not one of {', '.join(SOURCES)}"
            )


def _matches(row: tuple[str, ...], cell: tuple[str, ...]) -> bool:
    return all(mine in ("", theirs) for mine, theirs in zip(row, cell, strict=True))
