"""Figure 15 of FedSWE: a histogram of the base probabilities p_i of 100 clients."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.style import COLUMN_WIDTH

PAPER = "fedswe"
ID = "fig15"
NEEDS = ("fedswe_fig15",)
BINS = [i / 20 for i in range(21)]


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The p_i of every client."""
    return frames["fedswe_fig15"][["client", "probability"]]


def draw(data: pd.DataFrame) -> Figure:
    """Histogram with the mark 0.5 that the paper's caption speaks of."""
    figure = Figure(figsize=(COLUMN_WIDTH, COLUMN_WIDTH * 0.7))
    axes = figure.subplots()
    probability = data["probability"]
    axes.hist(probability, bins=BINS, color="C0", edgecolor="white", linewidth=0.5)
    axes.axvline(0.5, color="black", linestyle="--", linewidth=0.8)
    below = int((probability < 0.5).sum())
    axes.set_title(f"{below} of {len(data)} clients have $p_i < 0.5$")
    axes.set(xlabel="Base probability $p_i$", ylabel="Number of clients", xlim=(0, 1))
    return figure
