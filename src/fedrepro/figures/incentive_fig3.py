"""Figure 3 of the IncentFedAvg paper: welfare selection as stated, and where 46,000 does occur."""

from collections.abc import Mapping

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.participation import (
    ROUND,
    client_legend,
    contributions,
    draw_contributions,
    log_rounds,
)
from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "incentive"
ID = "fig3"
NEEDS = ("incentive_fig3", "incentive_fig3_costs", "incentive_fig3_weight")
TITLES = {
    "incentive_fig3": r"(a) as stated: $\theta_i \leq \|q_i\|^2$",
    "incentive_fig3_costs": r"(b) $\theta_1, \theta_3 > \|q_i\|^2$: out of range",
    "incentive_fig3_weight": r"(c) $\lambda_r > \|q_i\|^2 - \theta_i$ for $i = 1, 3$",
}
SHOWN = 1000  # rounds after which the paper's trajectories have settled
REPORTED = 46000  # images, the paper's total


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """N_i,r and their sum in every setting."""
    parts = []
    for name in NEEDS:
        rows = contributions(frames[name], name)
        parts.append(rows.assign(total=rows.groupby("round")["contribution"].transform("sum")))
    return pd.concat(parts, ignore_index=True)


def draw(data: pd.DataFrame) -> Figure:
    """Above the clients, below their sum; a column a setting, far beyond the rounds that the paper shows."""
    figure = Figure(figsize=(TEXT_WIDTH, 4.0))
    panels = figure.subplots(2, 3, sharex=True, sharey="row")
    for (above, below), name in zip(panels.T, NEEDS, strict=True):
        rows = data[data["panel"] == name]
        draw_contributions(above, rows)
        above.set(title=TITLES[name], xlabel="")
        first = rows[rows["client"] == rows["client"].min()]
        below.plot(first["round"], first["total"], color="black", linewidth=1.3, label=r"$\sum_i N_{i,r}$")
        below.axhline(REPORTED, color="0.5", linestyle="--", linewidth=1, label="46,000, as reported")
        below.plot(
            rows["round"].max(), rows[rows["round"] == 0]["equilibrium"].sum(), "D", color="black",
            markersize=4, clip_on=False, zorder=5, label=r"$\sum_i N_i^*$",
        )  # fmt: skip
        below.set(xlabel=ROUND, ylabel=r"Total $\sum_i N_{i,r}$ (images)", ylim=(0, 64000))
        below.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
        for axes in (above, below):
            log_rounds(axes, int(rows["round"].max()))
            axes.axvline(SHOWN, color="0.8", linewidth=0.8, zorder=0)
            axes.label_outer()
    panels[1, 0].legend(frameon=False, loc="lower left")
    client_legend(figure, panels[0, 0], equilibrium=True)
    return figure
