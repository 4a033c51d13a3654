"""Figure 2 of the partial-participation paper: the trajectories of Table II, (a) S = 4, (b) 20, (c) 40."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.scalar import averages
from fedrepro.presentation.style import TEXT_WIDTH, band

PAPER = "partial"
ID = "fig2"
NEEDS = ("partial_table2",)
HEADLINE_STEP = 0.001  # deviation step-of-table-2


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean gap and the half-width of its 95 % interval, per S, D_max and round."""
    frame = averages(frames["partial_table2"]).rename(columns={"problem.d_max": "d_max"})
    frame = frame[frame["step_size"] == HEADLINE_STEP]
    return frame[["sampled", "d_max", "step_size", "round", "trials", "gap", "gap_ci"]]


def draw(data: pd.DataFrame) -> Figure:
    """One panel per S, one curve per D_max."""
    levels = sorted(data["sampled"].unique())
    figure = Figure(figsize=(TEXT_WIDTH, 2.3))
    panels = figure.subplots(1, len(levels), sharey=True, squeeze=False)[0]
    for axes, letter, sampled in zip(panels, "abc", levels, strict=False):
        for d_max, curve in data[data["sampled"] == sampled].groupby("d_max"):
            label = rf"$D_{{\max}} = {d_max:g}$"
            band(axes, curve["round"], curve["gap"], curve["gap_ci"], label=label)
        axes.set(xlabel="Communication round $t$", yscale="log", title=f"({letter}) $S = {sampled}$")
        axes.margins(x=0)
        axes.ticklabel_format(axis="x", style="sci", scilimits=(3, 3), useMathText=True)
    panels[0].set_ylabel("$f(x_t) - f^*$")
    panels[-1].legend(frameon=False)
    return figure
