"""Theorem 3 of the partial-participation paper: with diminishing steps the gradient tends to zero."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.scalar import averages, single_trials
from fedrepro.presentation.style import COLUMN_WIDTH

PAPER = "partial"
ID = "theorem3"
NEEDS = ("partial_theorem3",)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """|f'(x_t)| of every single run, and its root mean square (``trial`` empty)."""
    frame = frames["partial_theorem3"]
    rows = pd.concat([averages(frame), single_trials(frame)])
    rows = rows.assign(gradient=np.sqrt(rows["squared_gradient"]))
    return rows.sort_values(["trial", "round"])[["trial", "round", "gradient"]]


def draw(data: pd.DataFrame) -> Figure:
    """Thin lines are single runs."""
    figure = Figure(figsize=(COLUMN_WIDTH, COLUMN_WIDTH * 0.75))
    axes = figure.subplots()
    data = data[data["round"] > 0]
    runs = data[data["trial"].notna()].groupby("trial")
    for number, (_, path) in enumerate(runs):
        label = f"{len(runs)} single runs" if number == 0 else None
        axes.plot(path["round"], path["gradient"], color="C0", alpha=0.3, linewidth=0.6, label=label)
    mean = data[data["trial"].isna()]
    axes.plot(mean["round"], mean["gradient"], color="C3", linewidth=1.5, label="root mean square")
    axes.set(xscale="log", yscale="log", xlabel="Communication round $t$", ylabel=r"$|\nabla f(x_t)|$")
    axes.legend(frameon=False)
    return figure
