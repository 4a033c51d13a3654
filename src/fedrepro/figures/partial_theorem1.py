"""Theorem 1 of the partial-participation paper: bounded gradient dissimilarity fails."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.style import COLUMN_WIDTH

PAPER = "partial"
ID = "theorem1"
NEEDS = ("partial_theorem1",)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Dissimilarity, its bound and closed form, and f' at every x_k."""
    columns = ["k", "x", "dissimilarity", "lower_bound", "closed_form", "gradient"]
    return frames["partial_theorem1"][columns]


def draw(data: pd.DataFrame) -> Figure:
    """The dissimilarity grows like k^2 while f' stays below 1."""
    figure = Figure(figsize=(COLUMN_WIDTH, COLUMN_WIDTH * 0.75))
    axes = figure.subplots()
    axes.plot(
        data["k"], data["dissimilarity"], label=r"$\frac{1}{2}\sum_i (f_i' - f')^2$ at $x_k$", linewidth=2
    )
    axes.plot(data["k"], data["lower_bound"], "--", label=r"bound $(k\pi)^2/8$")
    axes.plot(data["k"], data["gradient"], ":", label="$f'(x_k)$")
    axes.set(xscale="log", yscale="log", xlabel="$k$", ylabel="Dissimilarity, derivative")
    axes.legend(frameon=False)
    return figure
