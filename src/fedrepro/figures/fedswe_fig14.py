"""Figure 14 of FedSWE: how Dirichlet(0.1) spreads the classes over 20 clients."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.style import COLUMN_WIDTH

PAPER = "fedswe"
ID = "fig14"
NEEDS = ("fedswe_fig14",)
LARGEST = 130.0  # points^2: area of the bubble of a client that holds one class only


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Share of each class in each client's images."""
    frame = frames["fedswe_fig14"][["client", "label", "images"]].copy()
    frame["share"] = frame["images"] / frame.groupby("client")["images"].transform("sum")
    return frame


def draw(data: pd.DataFrame) -> Figure:
    """Bubbles whose area is the share of a class in a client's images."""
    figure = Figure(figsize=(COLUMN_WIDTH * 1.5, COLUMN_WIDTH))
    axes = figure.subplots()
    axes.scatter(data["client"], data["label"], s=LARGEST * data["share"], alpha=0.8, linewidths=0)
    for share in (0.1, 0.5, 1.0):
        axes.scatter([], [], s=LARGEST * share, color="C0", linewidths=0, label=f"{share:.0%}")
    axes.set(xlabel="Client", ylabel="Class", yticks=range(10), xticks=range(0, 20, 2))
    axes.set_xlim(-1, data["client"].max() + 1)
    axes.set_ylim(-0.8, data["label"].max() + 0.8)
    axes.grid(alpha=0.3)
    figure.legend(title="Share of the\nclient's images", loc="outside right upper", frameon=False)
    return figure
