"""Theorem 2 of the partial-participation paper: the bound (21) beside what is measured; who meets (20)."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.core.job import bind
from fedrepro.core.problem import Problem, admissible_step, gradient_bound
from fedrepro.core.spec import Choice
from fedrepro.presentation.scalar import averages
from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "partial"
ID = "theorem2"
NEEDS = ("partial_theorem2", "partial_fig1", "partial_table2", "partial_fig3")
NAMES = {
    "partial_theorem2": "largest admitted",
    "partial_fig1": "Figure 1",
    "partial_table2": "Table II",
    "partial_fig3": "Figure 3",
}


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Per cell: S, Q, step size, its limit (20), the measured minimum, and the bound (21) where it holds.

    The minimum over recorded rounds of the mean squared gradient is not below the one over all rounds. Its
    interval is that of the mean at that round.
    """
    rows = []
    for name in NEEDS:
        for cell, frame in averages(frames[name]).groupby("cell", observed=True, sort=False):
            rows.append({"experiment": NAMES[name], "cell": cell} | _facts(frame))
    return pd.DataFrame(rows)


def _facts(frame: pd.DataFrame) -> dict[str, object]:
    first = frame.iloc[0]
    steps, rounds, sampled = int(first["local_steps"]), int(first["rounds"]), int(first["sampled"])
    step = first["step_size"] / (steps if first["step_size_of"] == "round" else 1)
    params = {} if first["problem"] == "softplus16" else {"d_max": float(first["problem.d_max"])}
    problem = Problem(*bind("problem", Choice(str(first["problem"]), params)))
    limit = admissible_step(problem.plugin, sampled, steps, rounds)
    best = frame.loc[frame["squared_gradient"].idxmin()]
    admitted = step <= limit
    return {
        "sampled": sampled,
        "local_steps": steps,
        "step_size": step,
        "limit": limit,
        "ratio": step / limit,
        "admitted": admitted,
        "minimum": best["squared_gradient"],
        "minimum_ci": best["squared_gradient_ci"],
        "bound": gradient_bound(problem, sampled, steps, rounds, step) if admitted else float("nan"),
    }


def draw(data: pd.DataFrame) -> Figure:
    """Left: bound and measured minimum per S. Right: every step size of the paper over its limit."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.7))
    left, right = figure.subplots(1, 2)
    own = data[data["experiment"] == NAMES["partial_theorem2"]]
    positions = range(len(own))
    left.plot(positions, own["bound"], "v", color="C1", label="bound (21)")
    left.errorbar(
        positions, own["minimum"], own["minimum_ci"], fmt="o", color="C0", capsize=2, label="measured minimum"
    )
    left.set(yscale="log", ylabel=r"$\min_t\, E\,|\nabla f(x_t)|^2$", xlabel="Sampled clients $S$")
    left.set_title(r"(a) largest admitted $\alpha$")
    left.set_xticks(positions, [str(value) for value in own["sampled"]])
    left.margins(x=0.15)
    left.legend(frameon=False, loc="center right")
    rest = data[data["experiment"] != NAMES["partial_theorem2"]]
    labels = list(dict.fromkeys(rest["experiment"]))
    for admitted, group in rest.groupby("admitted"):
        places = [labels.index(name) for name in group["experiment"]]
        colour = "C2" if admitted else "C3"
        name = "meets (20)" if admitted else "violates (20)"
        right.plot(group["ratio"], places, "o", color=colour, alpha=0.6, markersize=4, label=name)
    right.axvline(1, color="black", linestyle="--", linewidth=0.8)
    right.set(xscale="log", xlabel=r"$\alpha$ of the paper / largest admitted $\alpha$")
    right.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    right.minorticks_off()
    right.set_title("(b) step sizes of the paper")
    right.set_yticks(range(len(labels)), labels)
    right.set_ylim(len(labels) - 0.5, -0.5)
    right.legend(frameon=False)
    return figure
