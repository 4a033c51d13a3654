"""Rows of a table of checks: what a paper states, and what is computed."""

from dataclasses import asdict, dataclass
from typing import Literal

import pyarrow as pa

SCHEMA = pa.schema(
    {
        "check": pa.string(),  # heads a group of rows
        "where": pa.string(),  # in the paper
        "quantity": pa.string(),
        "relation": pa.string(),  # of computed to stated
        "stated": pa.float64(),
        "computed": pa.float64(),
        "holds": pa.bool_(),
    }
)


@dataclass(frozen=True)
class Check:
    """``computed`` must equal ``stated``, or be on the right side of it, up to ``tolerance``."""

    check: str
    where: str
    quantity: str
    stated: float
    computed: float
    relation: Literal["=", "<=", ">="] = "<="
    tolerance: float = 1e-9

    @property
    def holds(self) -> bool:
        """Whether the statement is met."""
        excess = self.computed - self.stated
        return bool({"=": abs(excess), "<=": excess, ">=": -excess}[self.relation] <= self.tolerance)


def table(checks: list[Check]) -> pa.Table:
    """One row per check."""
    rows = [asdict(check) | {"holds": check.holds} for check in checks]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
