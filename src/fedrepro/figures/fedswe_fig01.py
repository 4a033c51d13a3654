"""Figure 1 of FedSWE: heterogeneous and non-stationary availability, from a trace of the sine dynamics."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.style import COLUMN_WIDTH

PAPER = "fedswe"
ID = "fig01"
NEEDS = ("fedswe_fig01",)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Probability and availability of each shown client and round."""
    return frames["fedswe_fig01"][["client", "round", "probability", "active"]]


def draw(data: pd.DataFrame) -> Figure:
    """Curves of p_i^t above the rounds in which each client is available."""
    figure = Figure(figsize=(COLUMN_WIDTH * 1.5, COLUMN_WIDTH))
    rounds = data["round"].max() + 1
    curve, raster = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    clients = list(data["client"].unique())
    for row, client in enumerate(clients):
        own = data[data["client"] == client]
        curve.stairs(
            own["probability"], range(rounds + 1), baseline=None, label=f"client {client}", linewidth=1.5
        )
        taken = own[own["active"].astype(bool)]["round"]
        raster.broken_barh([(t, 1) for t in taken], (row - 0.4, 0.8), color=f"C{row}")
    curve.set_ylabel("Probability $p_i^t$")
    curve.set_ylim(0, None)
    raster.set(xlabel="Round $t$", ylabel="Client available", yticks=range(len(clients)))
    raster.set_yticklabels([str(client) for client in clients])
    raster.set_ylim(-0.6, len(clients) - 0.4)
    raster.set_xlim(0, rounds)
    handles, labels = curve.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
    return figure
