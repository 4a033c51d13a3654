"""Checks of the FedSWE paper's theory: what it states, what is computed, and whether it holds."""

from collections.abc import Mapping

import pandas as pd

from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Cell, Table

PAPER = "fedswe"
ID = "theory"
NEEDS = (
    "fedswe_theory_availability", "fedswe_theory_algorithm", "fedswe_theory_mixing", "fedswe_theory_closed",
    "fedswe_theory_descent",
)  # fmt: skip

COLUMNS = ["check", "where", "quantity", "relation", "stated", "computed", "holds"]
ROUNDING = 1e-12  # smaller numbers are rounding errors, shown as such


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame | None) -> Table:
    """All checks, grouped by what is checked, in the order in which they were made."""
    found = [frame[frame["status"] != "missing"] for frame in frames.values()]
    rows = pd.concat([_named(frame)[COLUMNS] for frame in found], ignore_index=True)
    rows = rows.astype({"check": str, "where": str, "quantity": str, "relation": str, "holds": bool})
    groups = [
        (str(check), [_line(row) for row in group.itertuples()])
        for check, group in rows.groupby("check", sort=False)
    ]
    failed = int((~rows["holds"]).sum())
    notes = [
        f"{len(rows)} checks, of which {failed} fail. Where a row compares with our own derivation instead "
        "of the paper, it says so.",
        "J is the matrix of averaging, V = W(0) ... W(P-1) the mixing of one period, rho_k the second "
        "largest eigenvalue of E[V^T V], exact over all active sets.",
        f"<= {ROUNDING:g} stands for anything up to that, of either sign: rounding. The dynamics share their "
        "random numbers.",
    ]
    return Table(
        "FedSWE, theory: stated and computed",
        rows,
        ["Quantity", "In the paper", "Relation", "Stated", "Computed", "Holds"],
        groups,
        notes,
    )


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the dynamics in front of the quantity, where there is one."""
    if "dynamics" not in frame:
        return frame
    names = frame["dynamics"].astype(str).map(display)
    return frame.assign(quantity=names + ": " + frame["quantity"].astype(str))


def _line(row: object) -> list[Cell]:
    holds = Cell("yes") if row.holds else Cell("no", "bold")  # type: ignore[attr-defined]
    texts = [row.quantity, row.where, f"computed {row.relation} stated"]  # type: ignore[attr-defined]
    numbers = [_number(row.stated), _number(row.computed)]  # type: ignore[attr-defined]
    return [*(Cell(text) for text in texts + numbers), holds]


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.6g}" if abs(value) > ROUNDING else f"<= {ROUNDING:g}"
