"""Checks of what the IncentFedAvg paper says of its games and in its theorems: stated and computed."""

from collections.abc import Mapping

import pandas as pd

from fedrepro.presentation.checks import COLUMNS, NOTE, check_table
from fedrepro.presentation.tables import Table

PAPER = "incentive"
ID = "theory"
NEEDS = ("incentive_theory", "incentive_convergence", "incentive_nearest", "incentive_fig3")
CHECKS = NEEDS[:-1]
REFERENCE = "theory"

SHOWN = 1000  # rounds after which the paper's total is stable
TOLERANCE = 0.01  # relative


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """All checks, then the run of Figure 3 as stated beside the published total."""
    found = (frames[name] for name in CHECKS)
    parts = [frame.loc[frame["status"] != "missing", COLUMNS] for frame in found]
    run = frames["incentive_fig3"]
    if (run["status"] != "missing").all():
        parts.append(_totals(run, reference))
    rows = pd.concat(parts, ignore_index=True)
    failed = int((~rows["holds"].astype(bool)).sum())
    notes = [
        f"{len(rows)} statements, of which {failed} do not hold. Where a row compares with our own "
        "derivation instead of the paper, it says so.",
        "Why no total of 46,000 can be a limit: F_i = theta_i - ||q_i||^2 is constant and not positive for "
        "theta_i in the stated range, so every client ends at its cap; h is increasing, so minimising it "
        "favours small totals, and it selects nothing where the equilibrium is unique.",
        "Why no two clients can climb at once: client i climbs where 2 g_i exceeds sum_j g_j, with g_j = "
        "alpha_j beta_j S^(-beta_j - 1) > 0, and no two numbers both exceed half of a sum of positive ones.",
        "Why Theorem 4.9 (i-1) fails as printed: it bounds the drift of all rounds together by Lemma 6.9, "
        "which bounds that of one. Rederived, the term counts once a round, so that it does not vanish with "
        "R; and m G^2 stands for G^2 beside sum_i ||grad f_i(x*)||^2, since Lemma 6.5 bounds a mean over "
        "clients and Lemma 6.7 uses a sum.",
        "Lemma 4.2 fails with the printed weights in the last step of every round in which they change; with "
        "p_r+1 in their place it holds, and delta_r+1 <= delta_r lets the later proofs stand.",
        "Nearest settings: those of Figures 3 (b), 3 (c) and 4 (c) are ours. From each panel's setting a "
        "search varies one thing: the ratio of costs to payoffs of clients 1 and 3, lambda_0, and alpha and "
        "beta by drawing. Where the relation is <=, stated is the end of the paper's range or the panel's "
        "value, and computed the smallest with which the reported total, within 1 %, occurs.",
        NOTE,
    ]
    return check_table("IncentFedAvg, games and theorems: stated and computed", rows, notes)


def _totals(run: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Sum of N_i at the paper's horizon and at the end, beside the published one."""
    published = reference.loc[reference["metric"] == "participation_sum"].iloc[0]
    totals = run.groupby("round")["contribution"].sum()
    rows = []
    for completed in (min(totals.index, key=lambda r: abs(r - SHOWN)), totals.index.max()):
        value, total = float(published["value"]), float(totals[completed])
        row = {"check": "Figure 3 as stated", "where": published["locator"], "relation": "="}
        row |= {"quantity": f"sum of N_i after {completed} rounds, within 1 %", "stated": value}
        rows.append(row | {"computed": total, "holds": abs(total - value) <= TOLERANCE * value})
    return pd.DataFrame(rows)
