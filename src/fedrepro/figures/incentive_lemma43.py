"""Lemma 4.3 of the IncentFedAvg paper: linear convergence of participation and weights, and its bounds."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.participation import ROUND, log_rounds
from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "incentive"
ID = "lemma43"
NEEDS = ("incentive_lemma43",)
STEP = "participation.step_size"
PANELS = {
    "distance": (r"$\|N_r - N^*\|$ (images)", (1e-5, 1e5)),
    "share": (r"$\max_i |p_{i,r} - p_i^*|$", (1e-9, 10)),
}


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Measured distances and the printed bounds, per step size and round."""
    columns = [STEP, "round", "distance", "distance_bound", "share_error", "share_bound", "solver_distance"]
    return frames["incentive_lemma43"][columns]


def draw(data: pd.DataFrame) -> Figure:
    """Solid lines are measured, dashed ones of the same colour the bound."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.7))
    largest = data[STEP].max()
    for axes, (name, (label, limits)) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        measured = "distance" if name == "distance" else "share_error"
        for number, (step, rows) in enumerate(data.groupby(STEP)):
            text = rf"$\tilde\gamma = {step / largest:g}\,\mu_F / L_F^2$"
            axes.plot(rows["round"], rows[measured], color=f"C{number}", linewidth=1.3, label=text)
            axes.plot(rows["round"], rows[f"{name}_bound"], color=f"C{number}", linewidth=1, linestyle="--")
        axes.plot([], [], color="0.3", linestyle="--", linewidth=1, label="bound of Lemma 4.3")
        axes.set(xlabel=ROUND, ylabel=label, yscale="log", ylim=limits)
        log_rounds(axes, int(data["round"].max()))
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure
