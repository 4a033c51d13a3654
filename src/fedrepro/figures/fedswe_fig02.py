"""Figure 2 of FedSWE: the expected output of FedAvg for two clients with unequal availability."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "fedswe"
ID = "fig02"
NEEDS = ("fedswe_fig02",)
SHOWN = (0.1, 0.3, 0.5, 1.0)  # values of p_1 in panel b
MARKERS = "os"


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Closed form and simulated mean with the half-width of its 95 % interval, per p_1, p_2 and step size."""
    frame = frames["fedswe_fig02"]
    columns = ["p1", "p2", "step_size", "expected", "simulated", "simulated_se"]
    return frame[columns].assign(simulated_ci=1.96 * frame["simulated_se"])


def draw(data: pd.DataFrame) -> Figure:
    """(a) Contours of the closed form over both probabilities. (b) Curves in p_2 and simulated points."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.8))
    left, right = figure.subplots(1, 2)
    first = data[data["step_size"] == data["step_size"].min()]
    table = first.pivot(index="p2", columns="p1", values="expected")
    levels = np.linspace(0, 100, 21)
    shades = left.contourf(table.columns, table.index, table.to_numpy(), levels, cmap="RdBu_r")
    others = [level for level in range(10, 100, 10) if level != 50]
    lines = left.contour(table.columns, table.index, table.to_numpy(), others, colors="0.25", linewidths=0.5)
    left.clabel(lines, fontsize=6, fmt="%d")
    edge = (table.index.min(), 1)
    left.plot(edge, edge, color="black", linewidth=1.5, linestyle="--", label="$p_1 = p_2$: unbiased")
    left.set(xlabel="Availability $p_1$, $u_1 = 0$", title="(a) closed form")
    left.set_ylabel("Availability $p_2$, $u_2 = 100$")
    left.set_aspect("equal")
    left.legend(loc="lower right", fontsize=6)
    figure.colorbar(shades, ax=left, label="Expected output $E[x]$", ticks=range(0, 101, 25))
    for colour, p1 in enumerate(value for value in SHOWN if np.isclose(data["p1"], value).any()):
        rows = data[np.isclose(data["p1"], p1)]
        curve = rows[rows["step_size"] == rows["step_size"].min()]
        right.plot(curve["p2"], curve["expected"], color=f"C{colour}", linewidth=1, label=f"$p_1 = {p1:g}$")
        for marker, (_, points) in zip(MARKERS, rows.groupby("step_size"), strict=False):
            right.errorbar(
                points["p2"], points["simulated"], points["simulated_ci"], fmt=marker, color=f"C{colour}",
                markersize=3, markerfacecolor="none", markeredgewidth=0.7, elinewidth=0.7,
            )  # fmt: skip
    for marker, step in zip(MARKERS, sorted(data["step_size"].unique()), strict=False):
        right.plot(
            [],
            [],
            marker,
            color="0.3",
            markersize=3,
            markerfacecolor="none",
            label=rf"simulated, $\eta = {step:g}$",
        )
    right.axhline(50, color="black", linestyle="--", linewidth=1, label="minimiser $x^* = 50$")
    right.set(xlabel="Availability $p_2$", ylabel="Expected output $E[x]$", ylim=(0, 100), xlim=(0, 1.03))
    right.set_title("(b) closed form and simulation")
    right.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
