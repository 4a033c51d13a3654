"""Metrics over many trials of FedAvg on scalar problems (partial-participation paper)."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedrepro.claims.data import Data, NoDataError, Where, matching, title
from fedrepro.claims.evidence import Limits, Measured, Part, Sample, Statement, metric
from fedrepro.core.job import bind
from fedrepro.core.problem import Problem, admissible_step, gradient_bound
from fedrepro.core.rng import stream
from fedrepro.core.spec import Choice
from fedrepro.presentation import training
from fedrepro.presentation.scalar import averages, last, log_slope, single_trials
from fedrepro.stats.intervals import kendall

RESAMPLES = 2000
CONFIDENCE = 0.95
PAPER_TRIALS = 100  # of every experiment; Table II has more of them here
PRINTED_ON_TABLE2 = ["problem.d_max", "sampled"]


def _frame(data: Data, experiment: str, where: Where | None) -> pd.DataFrame:
    frame = matching(training.tidy(data.frame(experiment)), where or {})
    if frame.empty:
        raise NoDataError(f"{experiment} has no such cells")
    return frame


def _ends(frame: pd.DataFrame, value: str, columns: Sequence[str]) -> pd.DataFrame:
    """Trials down, cells across: a value at the last round, of the paper's number of trials."""
    ends = last(single_trials(frame))
    return ends[ends["trial"] < PAPER_TRIALS].pivot(index="trial", columns=list(columns), values=value)


@metric
def trial_order(
    data: Data, experiment: str, value: str, along: str, within: Sequence[str] = (), rises: bool = True,
    where: Where | None = None,
) -> list[Part]:  # fmt: skip
    """Differences of the last iterate's value between neighbouring cells along a column, paired by trial."""
    parts: list[Part] = []
    frame = _frame(data, experiment, where)
    groups = frame.groupby(list(within), sort=False) if within else [((), frame)]
    for key, group in groups:
        table = _ends(group, value, [along])
        for a, b in itertools.pairwise(sorted(table.columns)):
            change = (table[b] - table[a]).to_numpy() * (1 if rises else -1)
            words = [title(dict(zip(within, key, strict=True))), f"{along} = {a:g} to {b:g}"]
            parts.append(Sample("; ".join(filter(None, words)), change[np.isfinite(change)], value))
    return parts


@metric
def printed_gaps(data: Data, step_size: float) -> list[Part]:
    """Last-iterate gaps of Table II beside the published ones."""
    frame = averages(_frame(data, "table2", {"step_size": step_size}), all_trials=True)
    table = data.published[data.published["metric"] == "last_iterate_gap"]
    parts: list[Part] = []
    for row in table.to_dict("records"):
        where = {name: row[name] for name in PRINTED_ON_TABLE2}
        found = matching(last(frame), where)
        for cell in found.to_dict("records"):
            parts.append(
                Measured(
                    title(where), np.array([cell["gap"]]), row["value"], math.nan, int(row["n"]),
                    int(row["decimals"]), float(cell["gap_se"]), int(cell["trials"]),
                )
            )  # fmt: skip
    if not parts:
        raise NoDataError("no cell of Table II has been run")
    return parts


@metric
def printed_heterogeneity(data: Data, column: str) -> list[Part]:
    """sigma_f* or the BGD sum beside the published value, to the printed digit."""
    frame = _frame(data, "heterogeneity", None)
    table = data.published[data.published["metric"] == column]
    parts: list[Part] = []
    for row in table.to_dict("records"):
        for cell in matching(frame, {"problem.d_max": row["problem.d_max"]}).to_dict("records"):
            text = title({"problem.d_max": row["problem.d_max"]})
            half = 0.5 * 10.0 ** -row["decimals"]
            parts.append(Statement(text, row["value"], float(cell[column]), "=", half))
    return parts


@metric
def follows(data: Data, step_size: float) -> list[Part]:
    """Rank correlation of the gap with sigma_f* and with the BGD sum over D_max, per S: the first is larger.

    The BGD sum counts with the three digits that the paper prints.
    """
    measures = _frame(data, "heterogeneity", None).set_index("problem.d_max").sort_index()
    frame = last(averages(_frame(data, "table2", {"step_size": step_size}), all_trials=True))
    parts: list[Part] = []
    for sampled, group in frame.groupby("sampled"):
        gaps = group.set_index("problem.d_max")["gap"].reindex(measures.index).to_numpy()
        bgd = measures["bgd_sum"].round(3)
        parts += _nearer(f"S = {sampled:g}", measures["sigma_f_star"], bgd, gaps)
    return parts


@metric
def printed_follows(data: Data) -> list[Part]:
    """`follows`, on the numbers that Table II prints."""
    table = data.published[data.published["target"] == "table2"]
    fixed = table[table["metric"] != "last_iterate_gap"].pivot(
        index="problem.d_max", columns="metric", values="value"
    )
    gaps = _printed_table2(data)
    parts: list[Part] = []
    for sampled in gaps:
        found = gaps[sampled].reindex(fixed.index)
        parts += _nearer(f"printed, S = {sampled:g}", fixed["sigma_f_star"], fixed["bgd_sum"], found)
    return parts


def _nearer(name: str, sigma: Any, bgd: Any, gaps: Any) -> list[Statement]:
    """The rank correlation of gaps with sigma_f* is 1, and that with the BGD sum is below it."""
    first, second = kendall(sigma, gaps), kendall(gaps, bgd)
    return [
        Statement(f"{name}: tau of gap and sigma_f*", 1.0, first),
        Statement(f"{name}: tau of gap and BGD sum, below that of sigma_f*", first, second, "<"),
    ]


@metric
def slowed(data: Data, step_size: float, share: float) -> list[Part]:
    """Mean curves of Figure 2: rounds to a share of the start gap, and the last tenth, grow in D_max."""
    frame = averages(_frame(data, "table2", {"step_size": step_size}), all_trials=True)
    parts: list[Part] = []
    for sampled, group in frame.groupby("sampled"):
        found = []
        for d_max, curve in group.groupby("problem.d_max"):
            start = curve.loc[curve["round"] == 0, "gap"].item()
            below = curve.loc[curve["gap"] <= share * start, "round"]
            late = curve[curve["round"] > 0.9 * curve["rounds"]]
            found.append((d_max, float(below.min()), float(late["gap"].mean()), float(late["gap_se"].max())))
        for a, b in itertools.pairwise(sorted(found)):
            words = f"S = {sampled:g}; d_max = {a[0]:g} to {b[0]:g}"
            parts.append(Statement(f"{words}: rounds to {share:g} of the start gap", a[1], b[1], ">"))
            error = math.hypot(a[3], b[3])
            parts.append(Statement(f"{words}: mean gap of the last tenth", a[2], b[2], ">", error=error))
    return parts


def _bootstrapped(trials: int, statistic: Callable[[Any], float]) -> tuple[float, float, float]:
    """A statistic of chosen trials, for all of them, with its percentile interval over resampled ones."""
    rng = stream(0, "bootstrap", "claims")
    draws = [statistic(rng.integers(trials, size=trials)) for _ in range(RESAMPLES)]
    low, high = np.quantile(draws, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return float(statistic(slice(None))), float(low), float(high)


def _of_means(table: pd.DataFrame, statistic: Any) -> tuple[float, float, float]:
    """A statistic of the columns, as numbers, and their means over the trials down the table."""
    x, values = table.columns.to_numpy(float), table.to_numpy().T
    return _bootstrapped(len(table), lambda rows: statistic(x, values[:, rows].mean(1)))


@metric
def residual_trend(data: Data) -> list[Part]:
    """Kendall's tau of R_S(Q) in Q, with its bootstrap interval."""
    parts: list[Part] = []
    for sampled, group in _frame(data, "fig3", None).groupby("sampled"):
        table = _ends(group, "squared_gradient", ["local_steps"])
        found = _of_means(table, kendall)
        parts.append(Limits(f"S = {sampled:g}: tau of R_S(Q) in Q", *found, n=len(table)))
    return parts


@metric
def residual_order(data: Data) -> list[Part]:
    """R_4(Q) minus R_40(Q) at every Q, paired by trial."""
    table = _ends(_frame(data, "fig3", None), "squared_gradient", ["local_steps", "sampled"])
    parts: list[Part] = []
    for steps, pair in table.T.groupby(level=0):
        few, all_clients = pair.to_numpy()
        parts.append(Sample(f"Q = {steps:g}", few - all_clients, "squared gradient"))
    return parts


@metric
def residual_slope(data: Data) -> list[Part]:
    """Slope of log D_Q of (28) in log Q, with its bootstrap interval; D_Q up to its constant normaliser."""
    table = _ends(_frame(data, "fig3", None), "squared_gradient", ["sampled", "local_steps"])
    few, all_clients = sorted(table.columns.get_level_values(0).unique())
    gap = math.sqrt(few) * table[few] - math.sqrt(all_clients) * table[all_clients]
    found = _of_means(gap, log_slope)
    return [Limits("slope of log D_Q in log Q", *found, n=len(table))]


def _cells(data: Data, experiments: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame, Problem]]:
    for name in experiments:
        for _, cell in averages(_frame(data, name, None)).groupby("cell", sort=False):
            first = cell.iloc[0]
            d_max = first.get("problem.d_max", math.nan)
            params = {} if pd.isna(d_max) else {"d_max": float(d_max)}
            yield name, cell, Problem(*bind("problem", Choice(str(first["problem"]), params)))


def _step(first: pd.Series) -> float:
    return float(first["step_size"] / (first["local_steps"] if first["step_size_of"] == "round" else 1))


@metric
def step_admitted(data: Data, experiments: Sequence[str]) -> list[Part]:
    """Every step size of the paper over the largest that condition (20) admits, at most 1."""
    parts: list[Part] = []
    for name, cell, problem in _cells(data, experiments):
        first = cell.iloc[0]
        steps = int(first["local_steps"])
        limit = admissible_step(problem.plugin, int(first["sampled"]), steps, int(first["rounds"]))
        step = _step(first)
        d_max = (
            "" if pd.isna(first.get("problem.d_max", math.nan)) else f", D_max = {first['problem.d_max']:g}"
        )
        text = f"{name}: S = {first['sampled']:g}, Q = {steps}, alpha = {step:.3g}{d_max}"
        parts.append(Statement(text, 1.0, step / limit, "<=", note=f"limit {limit:.3g}"))
    return parts


@metric
def gradient_bounds(data: Data, experiments: Sequence[str]) -> list[Part]:
    """The smallest mean squared gradient against (21), where the step size meets (20).

    Every |f_i'| is at most 1, so that a bound above 1 says nothing.
    """
    parts: list[Part] = []
    for name, cell, problem in _cells(data, experiments):
        first = cell.iloc[0]
        steps, sampled, rounds = (int(first[key]) for key in ("local_steps", "sampled", "rounds"))
        step = _step(first)
        if step > admissible_step(problem.plugin, sampled, steps, rounds):
            continue
        bound = gradient_bound(problem, sampled, steps, rounds, step)
        best = cell.loc[cell["squared_gradient"].idxmin()]
        parts.append(
            Statement(
                f"{name}: S = {sampled}, Q = {steps}, alpha = {step:.3g}", bound,
                float(best["squared_gradient"]), "<=", error=float(best["squared_gradient_se"]),
                vacuous=bound >= 1, note=f"measured over bound {best['squared_gradient'] / bound:.2g}",
            )
        )  # fmt: skip
    if not parts:
        raise NoDataError("no step size meets (20)")
    return parts


@metric
def speedup_slope(data: Data, experiment: str, along: Sequence[str]) -> list[Part]:
    """Slope of the log of the best mean squared gradient in the log of a product, with a bootstrap interval.

    ``along``: columns that are multiplied, of which one differs between the cells. Trials are drawn anew, and
    the best round is that of the mean over the drawn ones.
    """
    frame = _frame(data, experiment, None)
    curves, sizes = [], []
    for _, cell in single_trials(frame).groupby("cell", sort=False):
        curves.append(cell.pivot(index="trial", columns="round", values="squared_gradient").to_numpy())
        sizes.append(float(cell[list(along)].iloc[0].astype(float).prod()))
    if len(set(sizes)) < 2:
        raise NoDataError(f"{experiment} has one value of {' '.join(along)} only")

    def slope(rows: Any) -> float:
        return log_slope(np.array(sizes), np.array([curve[rows].mean(0).min() for curve in curves]))

    trials = min(len(curve) for curve in curves)
    text = f"slope of the best squared gradient in {' '.join(along)}"
    words = f"{title({'problem': frame['problem'].iloc[0]})}: {text}"
    return [Limits(words, *_bootstrapped(trials, slope), n=trials)]


@metric
def gradient_halves(data: Data, factor: float) -> list[Part]:
    """Largest recorded |f'| over (T/2, T] at most half of that at T / ``factor``: in mean, and on every path.

    A path whose gradient falls by less decides nothing; one whose gradient does not fall refutes.
    """
    frame = _frame(data, "theorem3", None)
    paths = {"root mean square": averages(frame)}
    paths |= {f"path {int(trial)}": path for trial, path in single_trials(frame).groupby("trial")}
    parts: list[Part] = []
    for name, path in paths.items():
        total = path["rounds"].iloc[0]
        largest = []
        for end in (total / factor, total):
            late = path[(path["round"] > end / 2) & (path["round"] <= end)]
            largest.append(math.sqrt(float(late["squared_gradient"].max())))
        text = f"{name}: largest |f'| up to T over that up to T / {factor:g}"
        parts.append(Statement(text, 0.5, largest[1] / largest[0], "<=", refuted_at=1.0))
    return parts


@metric
def unbounded_dissimilarity(data: Data) -> list[Part]:
    """Theorem 1 at x_k: dissimilarity over (k pi)^2 / 8, and f' below 1, worst over k."""
    frame = _frame(data, "theorem1", None)
    over = float((frame["dissimilarity"] / frame["lower_bound"]).min())
    text = f"dissimilarity over (k pi)^2 / 8, smallest of k = 1 to {frame['k'].max():g}"
    return [
        Statement(text, 1.0, over, ">="),
        Statement("f'(x_k), largest", 1.0, float(frame["gradient"].max()), "<="),
    ]


@metric
def theorem_1_constants(data: Data) -> list[Part]:
    """Theorem 1's clients on a fine grid: bounded below, 9/4-smooth, sigma_f* at most 1/2; Lemma 1."""
    x = np.concatenate([np.linspace(0, 100, 200_001), np.geomspace(100, 1e8, 200_001)])
    r = np.sqrt(1 + x**2)
    root = np.sqrt(r)
    first = np.sin(root) / 2 + root * np.cos(root) / 4
    second = 3 * np.cos(root) / (8 * root) - np.sin(root) / 8
    bend = second * (x / r) ** 2 + first / r**3
    low = [float((r * (1 + sign * np.sin(root) / 2)).min()) for sign in (1, -1)]
    steepest = float(max(abs(1 / r**3 + bend).max(), abs(1 / r**3 - bend).max()))
    sigma = 1 - sum(low) / 2
    dissimilarity = (first * x / r) ** 2
    ratio = float((dissimilarity[1:] / (4.5 * (r[1:] - 1) + 4.5 * max(sigma, 0))).max())
    return [
        Statement("smallest value of f_1 and f_2", 0.5, min(low), ">="),
        Statement("largest |f_i''|", 9 / 4, steepest, "<="),
        Statement("sigma_f*", 0.5, sigma, "<=", note="0 up to the grid: both are smallest at 0"),
        Statement("Lemma 1: dissimilarity over its bound, largest", 1.0, ratio, "<="),
    ]


def _printed_table2(data: Data) -> pd.DataFrame:
    table = data.published[data.published["metric"] == "last_iterate_gap"]
    return table.pivot(index="problem.d_max", columns="sampled", values="value").sort_index()


@metric
def printed_monotone(data: Data) -> list[Part]:
    """Table II: the gap rises with D_max for every S and falls with S for every D_max."""
    table = _printed_table2(data)
    parts: list[Part] = []
    for sampled in table:
        rise = float(np.diff(table[sampled]).min())
        parts.append(Statement(f"S = {sampled:g}: smallest rise with D_max", 0.0, rise, ">"))
    for d_max, row in table.iterrows():
        parts.append(
            Statement(f"D_max = {d_max:g}: smallest fall with S", 0.0, float(-np.diff(row).max()), ">")
        )
    return parts


@metric
def printed_decomposition(data: Data, factor: float) -> list[Part]:
    """A / S + B I_S / S with A from S = 40 and B from S = 4 meets Table II at S = 20 up to a factor."""
    table = _printed_table2(data)
    few, middle, clients = sorted(table.columns)
    parts: list[Part] = []
    for d_max, row in table.iterrows():
        noise = clients * row[clients]
        shares = {s: (clients - s) / (clients - 1) for s in (few, middle)}
        sampling = (few * row[few] - noise) / shares[few]
        predicted = (noise + sampling * shares[middle]) / middle
        apart = math.exp(abs(math.log(predicted / row[middle])))
        note = f"predicted {predicted:.3g}, printed {row[middle]:.3g}"
        parts.append(Statement(f"D_max = {d_max:g}, S = {middle:g}", factor, apart, "<=", note=note))
    return parts
