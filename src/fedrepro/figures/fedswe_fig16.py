"""Figure 16 of FedSWE: probability trajectories and sampled availability under three dynamics."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.naming import display
from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "fedswe"
ID = "fig16"
NEEDS = ("fedswe_fig16",)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Probability and availability of each client and round."""
    return frames["fedswe_fig16"][["dynamics", "base", "round", "probability", "active"]]


def draw(data: pd.DataFrame) -> Figure:
    """Curves of p_i^t above the rounds in which each client is available."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.4))
    dynamics = list(data["dynamics"].unique())
    panels = figure.subplots(2, len(dynamics), sharex=True, sharey="row", height_ratios=(2, 1), squeeze=False)
    bases = sorted(data["base"].unique())
    for column, (letter, name) in enumerate(zip("abc", dynamics, strict=False)):
        curve, raster = panels[:, column]
        for row, base in enumerate(bases):
            client = data[(data["dynamics"] == name) & (data["base"] == base)]
            curve.step(client["round"], client["probability"], where="post", label=f"$p_i = {base:g}$")
            taken = client[client["active"].astype(bool)]["round"]
            raster.broken_barh([(t, 1) for t in taken], (row - 0.4, 0.8), color=f"C{row}")
        curve.set_title(f"({letter}) {display(name)}")
        curve.set_ylim(0, 1)
        raster.set(xlabel="Round $t$", yticks=range(len(bases)), ylim=(-0.6, len(bases) - 0.4))
        raster.set_yticklabels([f"{base:g}" for base in bases])
        raster.set_xlim(0, np.max(data["round"]) + 1)
    panels[0, 0].set_ylabel("Probability $p_i^t$")
    panels[1, 0].set_ylabel("Base $p_i$")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    return figure
