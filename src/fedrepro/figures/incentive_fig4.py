"""Figure 4 of the IncentFedAvg paper: the zero-sum game as stated, and one with the mean as cost."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.participation import (
    client_legend,
    contributions,
    draw_contributions,
    draw_losses,
    losses,
)
from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "incentive"
ID = "fig4"
NEEDS = ("incentive_fig4", "incentive_fig4_game", "incentive_fig4_mean")
EXIT = 1400  # round by which the paper's clients 1 to 3 are at zero
TITLES = {
    "incentive_fig4_game": "(b) cost: sum, as stated",
    "incentive_fig4_mean": "(c) cost: mean of the others",
}


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Loss curves of the stated game, and N_i,r of both."""
    parts = [losses(frames[NEEDS[0]]), *(contributions(frames[name], name) for name in NEEDS[1:])]
    return pd.concat(parts, ignore_index=True)


def draw(data: pd.DataFrame) -> Figure:
    """Loss, then participation in both games, and whether their last point is an equilibrium."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.8))
    left, *panels = figure.subplots(1, 3)
    draw_losses(left, data[data["panel"] == "loss"])
    left.set_title("(a) loss, as stated")
    for axes, name in zip(panels, NEEDS[1:], strict=True):
        rows = data[data["panel"] == name]
        draw_contributions(axes, rows)
        axes.axvline(EXIT, color="0.8", linewidth=0.8, zorder=0)
        gain = rows.loc[rows["round"] == rows["round"].max(), "regret"].max()
        rest = "an equilibrium" if gain < 1e-9 else "no equilibrium"
        axes.set(title=TITLES[name], ylim=(0, 16500))
        axes.text(
            0.98, 0.98, f"at the end: {rest}", transform=axes.transAxes, ha="right", va="top", fontsize=6
        )
    client_legend(figure, panels[0], equilibrium=False)
    return figure
