"""Figure 3 of FedSWE: FedAvg over active clients loses accuracy as availability becomes non-stationary."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from fedrepro.presentation.style import TEXT_WIDTH
from fedrepro.presentation.training import final_window, over_seeds, tidy
from fedrepro.presentation.window_panels import data_label

PAPER = "fedswe"
ID = "fig03"
NEEDS = ("fedswe_fig03",)
BY = ["split", "paper_dataset", "dataset", "dynamics.p", "dynamics.gamma"]


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Accuracy over the final rounds of a run, then mean and standard deviation over seeds."""
    return over_seeds(final_window(tidy(frames["fedswe_fig03"]), BY), BY, "accuracy")


def draw(data: pd.DataFrame) -> Figure:
    """Heat maps over p and gamma with their numbers, on one colour scale."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.9))
    panels = figure.subplots(1, 2, sharey=True)
    limits = 100 * data["mean"].min(), 100 * data["mean"].max()
    for axes, letter, split in zip(panels, "ab", ("train", "test"), strict=True):
        image = _map(axes, data[data["split"] == split], limits)
        axes.set_title(f"({letter}) {split.capitalize()} accuracy (%)")
    panels[0].set_ylabel("Availability $p$")
    figure.colorbar(image, ax=panels, label="Accuracy (%)")
    figure.suptitle(data_label(data), fontsize=8)
    return figure


def _map(axes: Axes, rows: pd.DataFrame, limits: tuple[float, float]) -> AxesImage:
    table = rows.set_index(["dynamics.p", "dynamics.gamma"])
    ps, gammas = (sorted(rows[name].unique()) for name in ("dynamics.p", "dynamics.gamma"))
    means = table["mean"].unstack().reindex(index=ps, columns=gammas)
    image = axes.imshow(100 * means, origin="lower", aspect="auto", cmap="cividis")
    image.set_clim(*limits)
    for row, p in enumerate(ps):
        for column, gamma in enumerate(gammas):
            text, bright = "not run", True
            if (p, gamma) in table.index:
                facts = table.loc[(p, gamma)]
                spread = "" if pd.isna(facts["std"]) else f"\n± {100 * facts['std']:.1f}"
                text = f"{100 * facts['mean']:.1f}{spread}"
                bright = 100 * facts["mean"] > sum(limits) / 2
                if facts["diverged"]:
                    text, bright = f"{facts['diverged']}/{facts['runs']}\ndiverged", True
            colour = "black" if bright else "white"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_yticks(range(len(ps)), [f"{p:g}" for p in ps])
    axes.set_xlabel(r"Degree of non-stationarity $\gamma$")
    return image
