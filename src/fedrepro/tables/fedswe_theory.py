"""Checks of the FedSWE paper's theory: what it states, what is computed, and whether it holds."""

from collections.abc import Mapping

import pandas as pd

from fedrepro.presentation.checks import COLUMNS, NOTE, check_table
from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Table

PAPER = "fedswe"
ID = "theory"
NEEDS = (
    "fedswe_theory_availability", "fedswe_theory_algorithm", "fedswe_theory_mixing", "fedswe_theory_closed",
    "fedswe_theory_descent", "fedswe_theory_auxiliary",
)  # fmt: skip


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame | None) -> Table:
    """All checks, grouped by what is checked, in the order in which they were made."""
    found = [frame[frame["status"] != "missing"] for frame in frames.values()]
    rows = pd.concat([_named(frame)[COLUMNS] for frame in found], ignore_index=True)
    failed = int((~rows["holds"].astype(bool)).sum())
    notes = [
        f"{len(rows)} checks, of which {failed} fail. Where a row compares with our own derivation instead "
        "of the paper, it says so.",
        "J is the matrix of averaging, V = W(0) ... W(P-1) the mixing of one period, rho_k the second "
        "largest eigenvalue of E[V^T V], exact over all active sets.",
        f"{NOTE} The dynamics share their random numbers.",
    ]
    return check_table("FedSWE, theory: stated and computed", rows, notes)


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the dynamics in front of the quantity, where there is one."""
    if "dynamics" not in frame:
        return frame
    names = frame["dynamics"].astype(str).map(display)
    return frame.assign(quantity=names + ": " + frame["quantity"].astype(str))
