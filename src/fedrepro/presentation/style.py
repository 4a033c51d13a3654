"""The look of all figures: sizes for a paper's column, one font size, vector output that is reproducible."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMN_WIDTH = 3.4  # inches, one column of a two-column paper
TEXT_WIDTH = 7.0  # inches, both columns
RC = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}

COLOURS = {  # one colour an algorithm, everywhere; told apart by colour-blind readers
    "fedswe": "#0173B2",
    "fedavg_active": "#000000",
    "fedavg_all": "#949494",
    "fedavg_known": "#029E73",
    "fedau": "#DE8F05",
    "f3ast": "#CA9161",
    "gfedavg": "#CC78BC",
    "mifa": "#D55E00",
    "fedvarp": "#56B4E9",
    "incentfedavg": "#117733",
}
GROUPS = ("#882255", "#999933")  # the two groups of clients of FedSWE, Section 7.1


def colour(algorithm: str) -> str:
    """The colour of an algorithm; a new one is dark violet until it has its own."""
    return COLOURS.get(algorithm, "#5A3286")


def use() -> None:
    """Set the style; call before a figure is drawn."""
    mpl.use("agg")
    sns.set_theme(context="paper", style="ticks", palette="colorblind", rc=RC)


def band(axes: Axes, x: Any, mean: Any, half_width: Any, *, label: str, **look: Any) -> None:
    """A curve with its interval; on a log axis the lower edge stays above zero."""
    (line,) = axes.plot(x, mean, label=label, **{"linewidth": 1.2} | look)
    low = np.maximum(mean - half_width, mean * 1e-3)
    axes.fill_between(x, low, mean + half_width, color=line.get_color(), alpha=0.2, linewidth=0)


def put_stamp(figure: Figure, lines: Sequence[str]) -> None:
    """Write the stamp of reduced or partial data under a figure."""
    if lines:
        figure.supxlabel("\n".join(lines), fontsize=6, color="#B00020")


def render(figure: Figure, suffix: str) -> bytes:
    """The figure as ``.pdf`` or ``.png`` bytes, without a date."""
    buffer = io.BytesIO()
    metadata = {"CreationDate": None} if suffix == ".pdf" else {}
    figure.savefig(buffer, format=suffix[1:], metadata=metadata)
    return buffer.getvalue()
