"""Figure 3 of the partial-participation paper: how the residual depends on the number of local updates."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from fedrepro.core.problem import sampling_factor
from fedrepro.core.rng import stream
from fedrepro.presentation.scalar import averages, last, log_slope, single_trials
from fedrepro.presentation.style import TEXT_WIDTH

PAPER = "partial"
ID = "fig3"
NEEDS = ("partial_fig3", "partial_heterogeneity")
CLIENTS = 40
RESAMPLES = 2000  # of the bootstrap over trials


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Panel a: R_S(Q) with 95 % half-widths. Panel b: D_Q of (28) likewise, and two fits.

    ``exponent``: slope of log D_Q in log Q. ``level`` and ``noise``: the weighted least-squares fit
    ``D_Q = level + noise / Q``. With alpha Q fixed, the noise term of the residual is proportional to
    1/(S Q); scaled by sqrt(S) it does not cancel in (28), and is what D_Q falls by.

    Trials of S = 4 and S = 40 share their random numbers, so the interval of D_Q is that of the paired
    differences; the exponent's is a percentile bootstrap over trials, all Q resampled together.
    """
    frame = frames["partial_fig3"]
    residual = last(averages(frame))[["sampled", "local_steps", "squared_gradient", "squared_gradient_ci"]]
    residual = residual.set_axis(["sampled", "local_steps", "value", "half_width"], axis=1)
    steps, scaled = _paired(frame, _normaliser(frame, frames["partial_heterogeneity"]))
    count = scaled.shape[1]
    slopes = _bootstrap_slopes(steps, scaled)
    scatter = scaled.std(1, ddof=1) / math.sqrt(count) * stats.t.ppf(0.975, count - 1)
    difference = {"panel": "b", "local_steps": steps, "value": scaled.mean(1), "half_width": scatter}
    exponent = {"exponent": log_slope(steps, scaled.mean(1))}
    exponent |= dict(
        zip(("exponent_low", "exponent_high"), np.nanquantile(slopes, (0.025, 0.975)), strict=True)
    )
    design = np.column_stack([np.ones(len(steps)), 1 / steps]) / scatter[:, None]
    (level, noise), *_ = np.linalg.lstsq(design, scaled.mean(1) / scatter, rcond=None)
    exponent |= {"level": level, "noise": noise}
    panels = [residual.assign(panel="a"), pd.DataFrame(difference).assign(**exponent)]
    return pd.concat(panels, ignore_index=True)


def _normaliser(frame: pd.DataFrame, heterogeneity: pd.DataFrame) -> float:
    """``L (Delta_f + sqrt(Delta_f sigma)) sqrt(I_S) / sqrt(T)`` with L = 1, the denominator of (28)."""
    d_max = frame["problem.d_max"].iloc[0]
    sigma = heterogeneity.loc[heterogeneity["problem.d_max"] == d_max, "sigma_f_star"].item()
    gap = frame.loc[(frame["round"] == 0) & frame["trial"].isna(), "gap"].iloc[0]
    sampled = frame["sampled"].min()
    factor = sampling_factor(sampled, CLIENTS)
    return (gap + math.sqrt(gap * sigma)) * math.sqrt(factor / frame["rounds"].iloc[0])


def _paired(frame: pd.DataFrame, normaliser: float) -> tuple[np.ndarray, np.ndarray]:
    """Values of Q, and the trials' contributions to D_Q, shape (Q, trials)."""
    ends = last(single_trials(frame))
    table = ends.pivot(index=["sampled", "local_steps"], columns="trial", values="squared_gradient")
    level = frame["sampled"].min()
    part, full = table.loc[level], table.loc[CLIENTS]
    scaled = (math.sqrt(level) * part - math.sqrt(CLIENTS) * full) / normaliser
    return scaled.index.to_numpy(), scaled.to_numpy()


def _bootstrap_slopes(steps: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    rng = stream(0, "bootstrap", "partial_fig3")
    count = scaled.shape[1]
    draws = rng.integers(count, size=(RESAMPLES, count))
    return np.array([log_slope(steps, scaled[:, draw].mean(1)) for draw in draws])


def draw(data: pd.DataFrame) -> Figure:
    """Log-log panels with error bars; in (b) the trends Q^0 and Q^1/2 through the first point."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.6))
    left, right = figure.subplots(1, 2)
    style = {"marker": "o", "markersize": 3, "capsize": 2, "linewidth": 1}
    for sampled, curve in data[data["panel"] == "a"].groupby("sampled"):
        name = "n = 40" if sampled == CLIENTS else f"{sampled:g}"
        left.errorbar(
            curve["local_steps"], curve["value"], curve["half_width"], label=f"$S = {name}$", **style
        )
    left.set(title="(a)", ylabel=r"$R_S(Q) = E\,|\nabla f(x_T)|^2$")
    points = data[data["panel"] == "b"]
    steps = points["local_steps"].to_numpy()
    right.errorbar(steps, points["value"], points["half_width"], color="C2", label="$D_Q$", **style)
    for power, text, line in ((0, "$Q^0$", "--"), (0.5, "$Q^{1/2}$", ":")):
        trend = points["value"].iloc[0] * (steps / steps[0]) ** power
        right.plot(steps, trend, color="black", linestyle=line, linewidth=1, label=text)
    fit = points.iloc[0]
    dense = np.geomspace(steps[0], steps[-1], 100)
    right.plot(dense, fit["level"] + fit["noise"] / dense, color="C4", linewidth=1, label="$a + b/Q$")
    right.set(ylabel="$D_Q$")
    interval = f"[${fit['exponent_low']:.2f}$, ${fit['exponent_high']:.2f}$]"
    right.set_title(f"(b) fitted exponent ${fit['exponent']:.2f}$ {interval}")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="Number of local updates $Q$")
        axes.legend(frameon=False)
    return figure
