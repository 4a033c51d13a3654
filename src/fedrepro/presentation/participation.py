"""What the figures of the IncentFedAvg paper share: losses against rounds, and images contributed."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedrepro.presentation.style import TEXT_WIDTH, band
from fedrepro.presentation.training import curves, tidy

CLIENTS = ("#0173B2", "#DE8F05", "#029E73", "#D55E00", "#CC78BC")  # told apart by colour-blind readers
STYLES = ("-", "--", "-.", ":", (0, (4, 1, 1, 1, 1, 1)))
ROUND = "Communication round $r$"
IMAGES = "Images contributed $N_{i,r}$"


def losses(frame: pd.DataFrame) -> pd.DataFrame:
    """Global cross-entropy, over all training images: mean and standard deviation over seeds, per reading."""
    rows = tidy(frame)
    rows = rows[rows["split"] == "train"]
    rows = rows.assign(reading=rows["reading"].astype(object).where(rows["reading"].notna(), ""))
    by = ["reading", "paper_dataset", "dataset", "local_steps"]
    return curves(rows, by, "loss").assign(panel="loss")


def contributions(frame: pd.DataFrame, panel: str = "contribution") -> pd.DataFrame:
    """N_i,r with what the client could still gain alone, N* where it is known, and the caps."""
    columns = ["round", "client", "contribution", "equilibrium", "regret", "upper"]
    return frame[columns].assign(panel=panel)


def draw_losses(axes: Axes, rows: pd.DataFrame) -> None:
    """One curve per number of local steps H, darker for more."""
    values = sorted(rows["local_steps"].unique())
    shades = mpl.colormaps["viridis_r"](np.linspace(0.15, 0.95, len(values)))
    for local_steps, shade in zip(values, shades, strict=True):
        curve = rows[rows["local_steps"] == local_steps]
        lost = f" ({curve['diverged'].iloc[0]:.0f} diverged)" if curve["diverged"].iloc[0] else ""
        label = f"$H = {local_steps:.0f}${lost}"
        band(axes, curve["round"], curve["mean"], curve["std"].fillna(0), label=label, color=shade)
    axes.set(xlabel=ROUND, ylabel="Global cross-entropy (nats)", yscale="log")
    axes.margins(x=0)
    axes.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    low, high = axes.get_ylim()
    axes.set_yticks([tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if low <= tick <= high])
    axes.legend(frameon=False)


def draw_contributions(axes: Axes, rows: pd.DataFrame) -> None:
    """One curve per client; N* as a mark at the right edge, where it is known."""
    last = rows["round"].max()
    for client, curve in rows.groupby("client"):
        look: dict[str, Any] = {"color": CLIENTS[int(client)], "linestyle": STYLES[int(client)]}
        axes.plot(curve["round"], curve["contribution"], label=f"Client {client:.0f}", linewidth=1.3, **look)
        target = curve["equilibrium"].iloc[0]
        if not np.isnan(target):
            axes.plot(last, target, "D", color=look["color"], markersize=4, clip_on=False, zorder=5)
    axes.set(xlabel=ROUND, ylabel=IMAGES)
    axes.margins(x=0)
    axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))


def client_legend(figure: Figure, axes: Axes, *, equilibrium: bool) -> None:
    """One legend of the clients, and of the mark of N*, above all panels."""
    handles, labels = axes.get_legend_handles_labels()
    if equilibrium:
        handles.append(mpl.lines.Line2D([], [], marker="D", linestyle="", color="0.3", markersize=4))
        labels.append("$N_i^*$")
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)


def losses_and_contributions(data: pd.DataFrame) -> Figure:
    """Figures 1 and 2: a panel of losses for each reading of the paper, then one of participation."""
    loss = data[data["panel"] == "loss"]
    readings = list(dict.fromkeys(loss["reading"]))
    panels = len(readings) + 1
    figure = Figure(figsize=(TEXT_WIDTH, 2.7))
    axes = figure.subplots(1, panels)
    for place, reading in zip(axes, readings, strict=False):
        draw_losses(place, loss[loss["reading"] == reading])
        if panels > 2:
            place.set_title(reading.replace("_", " "))
    draw_contributions(axes[-1], data[data["panel"] == "contribution"])
    client_legend(figure, axes[-1], equilibrium=True)
    return figure


def log_rounds(axes: Axes, last: int) -> None:
    """A logarithmic axis of rounds that starts at 0."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    powers = [power for power in range(0, 10, 1 if last < 10**4 else 2) if 10**power <= last]
    axes.set_xticks([0, *(10**p for p in powers)], ["0", "1", *(f"$10^{p}$" for p in powers[1:])])
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.set_xlim(0, last)
