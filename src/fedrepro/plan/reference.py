"""Published numbers: ``config/papers/<paper>/reference.csv``."""

import csv
from pathlib import Path
from typing import Any

from fedrepro.errors import FedreproError
from fedrepro.provenance.header import header

COLUMNS = (
    "target", "locator", "dataset", "dynamics", "algorithm", "k_over_m", "split", "metric", "value",
    "spread", "spread_kind", "n", "decimals", "source",
)  # fmt: skip
SOURCES = ("own", "carried over")


def check_reference(path: Path, paper: str, table_specs: dict[str, list[Any]]) -> None:
    """Every published number must belong to a cell of the paper's own grid.

    ``table_specs``: the specifications of each experiment at the paper's scale, by short name.
    """
    if not path.exists():
        return
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise FedreproError(f"{path}: the columns must be {','.join(COLUMNS)}")
        rows = list(reader)
    known = {name: set(map(_key, specs)) for name, specs in table_specs.items()}
    for number, row in enumerate(rows, start=2):
        key = tuple(row[name] for name in ("dataset", "dynamics", "algorithm", "k_over_m"))
        if key not in known.get(row["target"], ()):
            raise FedreproError(
                f"{path}, line {number}: {'/'.join(filter(None, key))} is no cell of "
                f"{paper}_{row['target']} at the paper's scale; correct the row or the grid"
            )
        if row["source"] not in SOURCES:
            raise FedreproError(
                f"{path}, line {number}: source {row['source']!r} is not one of {', '.join(SOURCES)}"
            )


def _key(spec: Any) -> tuple[str, ...]:
    if spec.kind != "train":
        return ()
    params = header("algorithm", spec.algorithm.name).params()(**spec.algorithm.params)
    k_over_m = str(getattr(params, "k_over_m", ""))
    return (spec.dataset, spec.dynamics.name, spec.algorithm.name, k_over_m)
