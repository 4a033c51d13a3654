"""Figure 5 of FedSWE: two clients that are never active together, (a, c) k = 0 and (b, d) k = 1."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "fedswe"
ID = "fig05"
NEEDS = ("fedswe_fig05",)
CLIENTS = 2
HALF_GAP = "analysis.half_gap"
STYLES = {"constant": ("C0", "C1"), "decaying": ("C2", "C3")}  # colours after even and odd rounds
LINEAR = 0.1  # below it the axis of a gradient near 0 is linear
TICKS = (-10, -1, -0.1, 0, 0.1, 1, 10, 100)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Gradient and consensus error by k, schedule and completed rounds, with the limits of a constant step.

    ``gradient_limit``: U c / (k + c), c = 1 - (1 - eta)^s; for k = 0 its square is the right side of (30).
    ``active``: the client of the round that was completed last.
    """
    frame = frames["fedswe_fig05"].rename(columns={"round": "rounds_completed"})
    k = CLIENTS * frame["algorithm.k_over_m"]
    step = frame["analysis.step_size"]
    moved = 1 - (1 - step) ** frame["analysis.local_steps"]
    frame = frame.assign(
        k=k,
        active=(frame["rounds_completed"] - 1) % CLIENTS,
        constant_step=step,
        gradient_limit=frame[HALF_GAP] * moved / (k + moved),
    )
    columns = ["k", "schedule", "rounds_completed", "active", "step_size", "constant_step"]
    return frame[[*columns, "gradient", "consensus_error", "gradient_limit"]]


def draw(data: pd.DataFrame) -> Figure:
    """Rows: gradient, consensus error. Columns: k = 0, k = 1. Even and odd rounds are curves of their own."""
    figure = Figure(figsize=(TEXT_WIDTH, 4.2))
    panels = figure.subplots(2, 2, sharex=True)
    for column, (k, rows) in enumerate(data.groupby("k")):
        gradient, consensus = panels[:, column]
        _gradient(gradient, rows)
        _consensus(consensus, rows)
        gradient.set_title(f"({'ab'[column]}) $k = {k:g}$")
        consensus.set_title(f"({'cd'[column]}) $k = {k:g}$")
        consensus.set(xlabel="Completed rounds", xscale="log")
        if k:
            gradient.set_yscale("symlog", linthresh=LINEAR)
            gradient.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS], minor=False)
            gradient.set_ylim(-20, 100)
    panels[0, 0].set_ylabel(r"Gradient $\nabla F(x)$")
    panels[1, 0].set_ylabel("Consensus error")
    handles, labels = panels[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _gradient(axes: Axes, rows: pd.DataFrame) -> None:
    for schedule, curves in rows.groupby("schedule"):
        for active, curve in curves.groupby("active"):
            label = f"{_schedule(schedule, rows)}, after {('even', 'odd')[active]} rounds"
            axes.plot(
                curve["rounds_completed"], curve["gradient"], color=STYLES[schedule][active], linewidth=1.2,
                linestyle="-" if schedule == "constant" else "--", label=label,
            )  # fmt: skip
    limit = rows["gradient_limit"].iloc[0]
    axes.axhline(limit, color="black", linewidth=0.8, linestyle=":", label=r"$\pm 100\,c/(k+c)$")
    axes.axhline(-limit, color="black", linewidth=0.8, linestyle=":")
    axes.axhline(0, color="0.7", linewidth=0.6, zorder=0)


def _consensus(axes: Axes, rows: pd.DataFrame) -> None:
    for schedule, curve in rows.groupby("schedule"):
        axes.plot(
            curve["rounds_completed"], curve["consensus_error"], color=STYLES[schedule][0], linewidth=1.2,
            linestyle="-" if schedule == "constant" else "--", label=_schedule(schedule, rows),
        )  # fmt: skip
    axes.axhline(rows["gradient_limit"].iloc[0] ** 2, color="black", linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    if rows["k"].iloc[0] == 0:
        axes.legend(frameon=False, loc="lower right")


def _schedule(schedule: str, rows: pd.DataFrame) -> str:
    return rf"$\eta = {rows['constant_step'].iloc[0]:g}$" if schedule == "constant" else r"decaying $\eta$"
