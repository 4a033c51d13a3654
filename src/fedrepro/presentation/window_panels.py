"""How FedSWE's Figures 6 to 12 are drawn: two groups of clients that are available in turn (Section 7.1)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedrepro.presentation.naming import display
from fedrepro.presentation.style import COLOURS, GROUPS, TEXT_WIDTH, band, colour

INSIDE = ("static", "staircase")  # what p_i^t does inside a window
MODELS = {"server": "server's model", "client_mean": "mean of the clients' models"}
MARKS = {"server": ("o", "-", -0.06), "client_mean": ("s", "--", 0.06)}  # marker, line, shift
WIDTHS = {"second": 1.6, "first": 0.8}  # of lines at the end of the second and of the first group's windows
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))  # one a value of k
WARNING = "#B00020"


def k_label(k_over_m: float) -> str:
    """How k is written, in units of the number of clients."""
    return {0.0: "0", 1.0: "m"}.get(k_over_m, f"{k_over_m:g}\\,m")


def data_label(frame: pd.DataFrame) -> str:
    """The data set, and the paper's own where ours stands for it."""
    facts = frame.iloc[0]
    ours, paper = display(str(facts["dataset"])), display(str(facts["paper_dataset"]))
    return ours if ours == paper else f"{ours} for {paper}"


def draw_availability(panels: Sequence[Axes], data: pd.DataFrame, letters: str = "ef") -> None:
    """p_i^t of one client of each group, static and staircase."""
    for axes, letter, inside in zip(panels, letters, INSIDE, strict=True):
        rows = data[(data["drawn"] == "availability") & (data["dynamics.inside"] == inside)]
        for group, curve in rows.groupby("group"):
            shown = GROUPS[int(group) - 1]
            name = f"client in $\\mathcal{{M}}_{group:.0f}$"
            axes.step(curve["round"], curve["probability"], where="post", color=shown, label=name)
        base = f", $p_i = {rows['base'].iloc[0]:g}$" if len(rows) else ""
        axes.set_title(f"({letter}) Availability, {inside}{base}")
        if has_rows(axes, rows):
            axes.set(xlabel="Round $t$", ylabel="$p_i^t$", ylim=(-0.03, 0.8))
            axes.set_xlim(0, rows["round"].max() + 1)
            axes.legend(frameon=False, loc="upper right", ncols=2)


def draw_consensus(axes: Axes, rows: pd.DataFrame, values: list[float]) -> None:
    """Consensus error on a logarithmic scale; every k of ``values`` has its shade and its line style."""
    for number, k in enumerate(values):
        curve = rows[rows["k_over_m"] == k]
        shade = colormaps["viridis"](0.9 * number / len(values))
        look = {"color": shade, "linestyle": LINES[number % len(LINES)]}
        if len(curve):
            spread = curve["std"].fillna(0)
            band(axes, curve["round"], curve["mean"], spread, label=f"$k = {k_label(k)}$", **look)
            _end(axes, curve, curve["mean"], shade)
    axes.set(yscale="log", xlabel="Round", ylabel="Consensus error")
    positive = rows.loc[rows["mean"] > 0, "mean"]  # 0 until a client was available
    if len(positive):
        axes.set_ylim(positive.min() / 2, positive.max() * 3)
    axes.margins(x=0)
    _absent(axes, [f"$k = {k_label(k)}$" for k in values if k not in set(rows["k_over_m"])])


def accuracy_figure(data: pd.DataFrame) -> Figure:
    """Figures 7 and 10: rows k = 0, k = m and p_i^t; columns static and staircase."""
    figure = Figure(figsize=(TEXT_WIDTH, 7.4))
    panels = figure.subplots(3, 2)
    runs = data[data["drawn"] == "runs"]
    for row, k in enumerate((0.0, 1.0)):
        for column, inside in enumerate(INSIDE):
            axes = panels[row, column]
            chosen = runs[(runs["dynamics.inside"] == inside) & runs["k_over_m"].isin([k, float("nan")])]
            axes.set_title(f"({'abcd'[2 * row + column]}) {inside}, FedSWE with $k = {k_label(k)}$")
            if has_rows(axes, chosen):
                _draw_accuracy(axes, chosen, runs["runs"].max())
                axes.set(ylim=(0, 100), xlabel="Round", ylabel="Test accuracy (%)")
                absent = set(runs["algorithm"]) - set(chosen["algorithm"])
                _absent(axes, sorted(map(display, absent)))
    draw_availability(panels[2], data)
    handles = [
        item for axes in panels[:2].flat for item in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    handles.sort(key=lambda item: not item[1].startswith(display("fedswe")))  # FedSWE first
    unique = {label: handle for handle, label in handles}
    for end, group in (("second", 2), ("first", 1)):
        line = Line2D([], [], color="0.3", linewidth=WIDTHS[end])
        unique[f"at the end of $\\mathcal{{M}}_{group}$'s windows"] = line
    legend_above(figure, unique.values(), unique.keys(), 3, data_label(runs))
    return figure


def _draw_accuracy(axes: Axes, rows: pd.DataFrame, most: int) -> None:
    """One line a model and window end, the band at the end of the period only; ``most``: number of seeds."""
    order = [name for name in COLOURS if name != "fedswe"] + ["fedswe"]  # FedSWE on top
    keys = ["algorithm", "evaluated", "end"]
    for (algorithm, evaluated, end), curve in sorted(
        rows.groupby(keys), key=lambda item: order.index(item[0][0]) if item[0][0] in order else -1
    ):
        look: dict[str, Any] = {"color": colour(algorithm), "linewidth": WIDTHS[end]}
        look["linestyle"] = "--" if evaluated == "client_mean" else "-"
        mean, std = 100 * curve["mean"], 100 * curve["std"].fillna(0)
        if end == "first":
            axes.plot(curve["round"], mean, alpha=0.7, **look)
            continue
        name = display(algorithm) + (f", {MODELS[evaluated]}" if algorithm == "fedswe" else "")
        runs = curve["runs"].iloc[0]
        few = f" ({runs:.0f} of {most:.0f} seeds)" if runs < most else ""
        band(axes, curve["round"], mean, std, label=name + few, **look)
        _end(axes, curve, mean, look["color"])
    axes.margins(x=0)


def by_k_figure(data: pd.DataFrame, draw: Callable[[Axes, pd.DataFrame, list[float]], None]) -> Figure:
    """Figures 8, 9, 11 and 12: a quantity against k, static and staircase."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.9))
    panels = figure.subplots(1, 2, sharey=True)
    values = sorted(data["k_over_m"].unique())
    for axes, letter, inside in zip(panels, "ab", INSIDE, strict=True):
        rows = data[data["dynamics.inside"] == inside]
        axes.set_title(f"({letter}) {inside}")
        if has_rows(axes, rows):
            draw(axes, rows, values)
            axes.set_xticks(range(len(values)), [f"${k_label(k)}$" for k in values])
            axes.set(xlabel="Interpolation coefficient $k$", xlim=(-0.5, len(values) - 0.5))
    handles, labels = next(a.get_legend_handles_labels() for a in panels if a.has_data())
    legend_above(figure, handles, labels, 4, data_label(data))
    return figure


def draw_final(axes: Axes, rows: pd.DataFrame, values: list[float]) -> None:
    """Mean accuracy and its deviation over seeds; the server's at either window's end as small marks."""
    for evaluated, (marker, line, shift) in MARKS.items():
        points = _at(values, rows[(rows["evaluated"] == evaluated) & (rows["end"] == "both")])
        axes.errorbar(
            [place + shift for place in range(len(values))], 100 * points["mean"],
            100 * points["std"].fillna(0), marker=marker, linestyle=line, markersize=4, capsize=2,
            linewidth=1.2, color=colour("fedswe"), label=MODELS[evaluated],
        )  # fmt: skip
    for place, point in enumerate(points.itertuples()):
        if pd.isna(point.runs):
            _say(axes, place, "not run")
        elif point.diverged:
            _say(axes, place, f"{point.diverged:.0f}/{point.runs:.0f}\ndiverged")
    for end, group in (("first", 1), ("second", 2)):
        points = _at(values, rows[(rows["evaluated"] == "server") & (rows["end"] == end)])
        axes.plot(
            range(len(values)), 100 * points["mean"], "^v"[group - 1], color=GROUPS[group - 1],
            markersize=3.5, label=f"server's, end of $\\mathcal{{M}}_{group}$'s windows",
        )  # fmt: skip
    axes.set_ylabel("Test accuracy (%)")
    axes.label_outer(remove_inner_ticks=False)


def draw_rounds(axes: Axes, rows: pd.DataFrame, values: list[float]) -> None:
    """Every run a small mark, the mean a line where all runs reach the level; the others are ``never``."""
    last = rows["rounds"].max()
    top = 1.12 * last
    for evaluated, (marker, line, shift) in MARKS.items():
        runs = rows[rows["evaluated"] == evaluated]
        look: dict[str, Any] = {"marker": marker, "markersize": 3, "color": colour("fedswe")}
        places = runs["k_over_m"].map(values.index) + shift
        axes.plot(places, runs["reached"], linestyle="", alpha=0.5, **look)
        mean = runs.groupby("k_over_m")["reached"].agg(lambda reached: reached.mean(skipna=False))
        places = [place + shift for place in range(len(values))]
        axes.plot(
            places, mean.reindex(values), linestyle=line, linewidth=1.2, label=MODELS[evaluated], **look
        )
        for k, group in runs[runs["reached"].isna()].groupby("k_over_m"):
            place, total = values.index(k) + shift, (runs["k_over_m"] == k).sum()
            axes.plot(place, top, marker="x", color=WARNING, markersize=5)
            axes.annotate(
                f"{len(group)}/{total}", (place, top), (0, 4 if shift > 0 else -9),
                textcoords="offset points", ha="center", fontsize=6, color=WARNING,
            )  # fmt: skip
    for place, k in enumerate(values):
        own = rows[(rows["k_over_m"] == k) & (rows["evaluated"] == "server")]
        if own.empty:
            _say(axes, place, "not run")
        elif lost := (own["status"] == "diverged").sum():
            _say(axes, place, f"{lost}/{len(own)}\ndiverged")
    axes.axhline(last, color="0.6", linewidth=0.6)
    axes.text(-0.45, top, "never", color=WARNING, va="center", fontsize=7)
    axes.set(ylim=(0, 1.22 * last), ylabel="Rounds to 40 % test accuracy")
    axes.set_yticks([tick for tick in axes.get_yticks() if tick <= last])
    axes.label_outer(remove_inner_ticks=False)


def legend_above(
    figure: Figure, handles: Iterable[Any], labels: Iterable[str], columns: int, title: str | None = None
) -> None:
    """One legend for all panels, above them: the stamp of reduced data stands below."""
    figure.legend(
        list(handles), list(labels), loc="outside upper center", ncols=columns, frameon=False, title=title
    )


def has_rows(axes: Axes, rows: pd.DataFrame) -> bool:
    """Whether a panel has something to show; if not, it says so."""
    if rows.empty:
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color=WARNING)
        axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    return not rows.empty


def _end(axes: Axes, curve: pd.DataFrame, values: pd.Series, shade: Any) -> None:
    """A cross where a curve ends because a run diverged, and how many did."""
    facts = curve.iloc[-1]
    if facts["diverged"]:
        axes.plot(facts["round"], values.iloc[-1], marker="x", color=shade, markersize=6)
        axes.annotate(
            f"{facts['diverged']:.0f}/{facts['runs']:.0f} diverged",
            (facts["round"], values.iloc[-1]), (5, 0), textcoords="offset points", va="center",
            fontsize=6, color=WARNING,
        )  # fmt: skip


def _at(values: list[float], points: pd.DataFrame) -> pd.DataFrame:
    """One row a value of k, empty where there are no runs, so that a line breaks there."""
    return points.set_index("k_over_m").reindex(values)


def _absent(axes: Axes, names: list[str]) -> None:
    """What a panel lacks."""
    if names:
        text = "not run: " + ", ".join(names)
        axes.text(0.02, 0.03, text, transform=axes.transAxes, fontsize=6, color=WARNING)


def _say(axes: Axes, place: float, text: str) -> None:
    axes.text(place, 0.03, text, transform=axes.get_xaxis_transform(), ha="center", fontsize=6, color=WARNING)
