"""Figure 1 of the partial-participation paper: fewer sampled clients, larger objective gap."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.scalar import averages
from fedrepro.presentation.style import COLUMN_WIDTH, band

PAPER = "partial"
ID = "fig1"
NEEDS = ("partial_fig1",)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean gap and the half-width of its 95 % interval, per S and round."""
    return averages(frames["partial_fig1"])[["sampled", "round", "trials", "gap", "gap_ci"]]


def draw(data: pd.DataFrame) -> Figure:
    """One curve per participation level."""
    figure = Figure(figsize=(COLUMN_WIDTH, COLUMN_WIDTH * 0.75))
    axes = figure.subplots()
    for sampled, curve in data.groupby("sampled"):
        band(axes, curve["round"], curve["gap"], curve["gap_ci"], label=f"$S = {sampled}$")
    axes.set(xlabel="Communication round $t$", ylabel="$f(x_t) - f^*$", yscale="log")
    axes.margins(x=0)
    axes.legend(frameon=False)
    return figure
