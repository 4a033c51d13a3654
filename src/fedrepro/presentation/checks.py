"""Tables of checks: what a paper states, what is computed, and whether it holds."""

import pandas as pd

from fedrepro.presentation.tables import Cell, Table

COLUMNS = ["check", "where", "quantity", "relation", "stated", "computed", "holds"]
ROUNDING = 1e-12  # smaller numbers are rounding errors, shown as such
NOTE = f"<= {ROUNDING:g} stands for anything up to that, of either sign: rounding."


def check_table(title: str, rows: pd.DataFrame, notes: list[str]) -> Table:
    """All checks, grouped by what is checked, in the order in which they were made."""
    rows = rows[COLUMNS].astype({"check": str, "where": str, "quantity": str, "relation": str, "holds": bool})
    groups = [
        (str(check), [_line(row) for row in group.itertuples()])
        for check, group in rows.groupby("check", sort=False)
    ]
    heads = ["Quantity", "In the paper", "Relation", "Stated", "Computed", "Holds"]
    return Table(title, rows, heads, groups, notes)


def _line(row: object) -> list[Cell]:
    holds = Cell("yes") if row.holds else Cell("no", "bold")  # type: ignore[attr-defined]
    texts = [row.quantity, row.where, f"computed {row.relation} stated"]  # type: ignore[attr-defined]
    numbers = [_number(row.stated), _number(row.computed)]  # type: ignore[attr-defined]
    return [*(Cell(text) for text in texts + numbers), holds]


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.6g}" if abs(value) > ROUNDING else f"<= {ROUNDING:g}"
