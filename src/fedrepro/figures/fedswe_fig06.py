"""Figure 6 of FedSWE: consensus error under two groups of clients that are available in turn."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.style import TEXT_WIDTH
from fedrepro.presentation.window_panels import (
    INSIDE,
    data_label,
    draw_availability,
    draw_consensus,
    has_rows,
    legend_above,
)
from fedrepro.presentation.windows import consensus, with_availability

PAPER = "fedswe"
ID = "fig06"
NEEDS = ("fedswe_windows_svhn", "fedswe_windows_cifar10", "fedswe_windows_dynamics")


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean and standard deviation over seeds per k at the end of every period; p_i^t of two clients."""
    return with_availability(consensus(frames, NEEDS[:2]), frames, NEEDS[2])


def draw(data: pd.DataFrame) -> Figure:
    """Rows: SVHN, CIFAR-10, p_i^t; columns: static and staircase."""
    figure = Figure(figsize=(TEXT_WIDTH, 6.4))
    panels = figure.subplots(3, 2)
    values = sorted(data["k_over_m"].dropna().unique())
    for row, dataset in enumerate(("svhn", "cifar10")):
        for column, inside in enumerate(INSIDE):
            axes = panels[row, column]
            rows = data[(data["paper_dataset"] == dataset) & (data["dynamics.inside"] == inside)]
            title = f"({'abcd'[2 * row + column]}) {inside}"
            if has_rows(axes, rows):
                draw_consensus(axes, rows, values)
                title += f", {data_label(rows)}"
            axes.set_title(title)
    draw_availability(panels[2], data)
    lines = [item for axes in panels[:2].flat for item in zip(*axes.get_legend_handles_labels(), strict=True)]
    unique = {label: line for line, label in lines}
    legend_above(figure, unique.values(), unique.keys(), 7)
    return figure
