"""Lemma 4.4 of the IncentFedAvg paper: welfare gap, dual gap and weights under iterative regularisation."""

from collections.abc import Mapping

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "incentive"
ID = "lemma44"
NEEDS = ("incentive_lemma44",)
STARTS = {"corner": "start at $N^{min}$", "inside": "start midway", "equilibrium": "start at $N^*$"}
COLUMNS = [
    "start", "round", "welfare_gap", "welfare_upper", "welfare_lower", "dual_gap", "dual_gap_bound",
    "share_error", "share_bound", "share_bound_of_proof", "distance",
]  # fmt: skip
PANELS = {  # measured, its bounds with their line styles, label
    "welfare_gap": (
        {"welfare_upper": "--", "welfare_lower": ":"},
        r"(i) $h(\bar N_R) - h(N^*)$ (images)",
    ),
    "dual_gap": ({"dual_gap_bound": "--"}, r"(ii) $\mathrm{Gap}(\bar N_R)$"),
    "share_error": ({"share_bound": "--", "share_bound_of_proof": "-."}, r"(iv) $\max_i |p_{i,R} - p_i^*|$"),
}


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Measured values and bounds, per start and R."""
    return frames["incentive_lemma44"][COLUMNS].astype({"start": str})


def draw(data: pd.DataFrame) -> Figure:
    """Solid lines are measured, the others bounds; one colour a start."""
    figure = Figure(figsize=(TEXT_WIDTH, 3.0))
    panels = figure.subplots(1, 3)
    for axes, (measured, (bounds, label)) in zip(panels, PANELS.items(), strict=True):
        for number, start in enumerate(STARTS):
            rows = data[data["start"] == start]
            look = {"color": f"C{number}"}
            values = rows[measured].where(rows[measured] != 0)  # which a log axis cannot show
            axes.plot(rows["round"], values, linewidth=1.5, label=STARTS[start], **look)
            for name, style in bounds.items():
                if number == 0 or name in ("welfare_lower", "share_bound", "share_bound_of_proof"):
                    common = name in ("welfare_upper", "dual_gap_bound")
                    shade = {"color": "black"} if common else look
                    axes.plot(rows["round"], rows[name], style, linewidth=1, **shade)
        axes.set(xscale="log", xlabel="Rounds $R$", title=label)
        axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    panels[0].set_yscale("symlog", linthresh=1e3, linscale=0.5)
    panels[0].set_yticks([-1e5, -1e4, -1e3, 0, 1e3, 1e4, 1e5, 1e6])
    panels[0].yaxis.set_minor_locator(mpl.ticker.NullLocator())
    panels[0].axhline(0, color="0.8", linewidth=0.8, zorder=0)
    for axes in panels[1:]:
        axes.set_yscale("log")
    panels[2].text(
        0.97, 0.03, "printed bound from $N^*$: 0", transform=panels[2].transAxes, color="C2", ha="right",
        fontsize=6,
    )  # fmt: skip
    handles, labels = panels[0].get_legend_handles_labels()
    for style, text in (("--", "bound, upper"), (":", "bound, lower"), ("-.", "bound that the proof gives")):
        handles += panels[0].plot([], [], style, color="0.3", linewidth=1)
        labels.append(text)
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
    return figure
