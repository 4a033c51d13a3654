"""Figure 4 of FedSWE: the spectral norm rho_k of information mixing against k, (a) P = 1, (b) P = 20."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "fedswe"
ID = "fig04"
NEEDS = ("fedswe_fig04",)
SMALL = 1e-6  # what is drawn on a log axis starts here
COLUMNS = [
    "p_first", "p_last", "period", "k", "exact", "sampled", "sampled_ci", "repetitions", "reversed",
    "limit", "log_gap_printed", "log_gap_repaired", "bound_repaired",
]  # fmt: skip


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Exact and sampled rho_k, the limit for large k, and the bounds of Lemma 11 as ``log10(1 - bound)``."""
    frame = frames["fedswe_fig04"]
    frame = frame.rename(columns={"analysis.repetitions": "repetitions"}).assign(
        sampled_ci=1.96 * frame["sampled_se"], bound_repaired=1 - 10.0 ** frame["log_gap_repaired"]
    )
    return frame[COLUMNS]


def draw(data: pd.DataFrame) -> Figure:
    """One panel a period, one curve a case; the ranges of the panels differ, as in the paper."""
    figure = Figure(figsize=(TEXT_WIDTH, 3.4))
    left, right = figure.subplots(1, 2)
    single, periodic = (data[data["period"] == 1], data[data["period"] > 1])
    for colour, (p, case) in enumerate(single.groupby("p_first")):
        _case(left, case, colour, f"$p = {p:g}$")
        left.plot(case["k"], case["bound_repaired"], color=f"C{colour}", linestyle=":", linewidth=1)
    left.plot([], [], color="0.3", linestyle=":", linewidth=1, label="(20) with $(m+k)^4$")
    left.set(title="(a) one rate for all, $P = 1$", ylim=(-0.03, 1.03))
    for colour, ((p, q), case) in enumerate(periodic.groupby(["p_first", "p_last"])):
        _case(right, case, colour, f"$({p:g}, {q:g})$")
    period = periodic["period"].iloc[0]
    right.set(title=f"(b) two groups in turn, $P = {period}$", yscale="log")
    draws = f"{data['repetitions'].iloc[0]:,} draws"
    for axes, title in ((left, None), (right, "$(p_1, p_2)$")):
        axes.plot([], [], "o", color="0.3", markersize=3, markerfacecolor="none", label=draws)
        axes.set(xscale="log", xlabel="Interpolation coefficient $k$", ylabel=r"Spectral norm $\rho_k$")
        axes.legend(
            frameon=False, title=title, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2),
            columnspacing=1, handlelength=1.5,
        )  # fmt: skip
    return figure


def _case(axes: Axes, case: pd.DataFrame, colour: int, label: str) -> None:
    case = case.sort_values("k")
    log = np.maximum(case["exact"], SMALL) if case["period"].iloc[0] > 1 else case["exact"].clip(lower=0)
    line = "-" if (case["p_first"] == case["p_last"]).all() else "--"
    axes.plot(case["k"], log, line, color=f"C{colour}", linewidth=1.2, label=label)
    axes.errorbar(
        case["k"], case["sampled"].clip(lower=0), case["sampled_ci"], fmt="o", color=f"C{colour}",
        markersize=3, markerfacecolor="none", markeredgewidth=0.7, elinewidth=0.7,
    )  # fmt: skip
