"""Intervals of a mean: Student's t below twenty values, bootstrap from twenty on."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fedrepro.core.rng import stream

BOOTSTRAP_FROM = 20  # values
RESAMPLES = 2000


def interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Limits of the mean of independent values, shape (n,); NaN below two values.

    From twenty values on the bias-corrected and accelerated bootstrap (Efron, 1987), with the same resamples
    in every run.
    """
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return float("nan"), float("nan")
    if len(sample) < BOOTSTRAP_FROM or np.ptp(sample) == 0:
        return t_limits(sample.mean(), stats.sem(sample), len(sample), confidence)
    found = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        rng=stream(0, "bootstrap", "interval"),
    ).confidence_interval
    return float(found.low), float(found.high)


def t_limits(mean: float, error: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Limits from a mean and its standard error; n - 1 degrees of freedom."""
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * float(error)
    return float(mean) - half, float(mean) + half


def kendall(x: ArrayLike, y: ArrayLike) -> float:
    """Kendall's tau-b of y against x; zero where y is constant."""
    if np.ptp(np.asarray(y, dtype=np.float64)) == 0:
        return 0.0
    return float(stats.kendalltau(x, y).statistic)


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of y against x."""
    return float(stats.linregress(x, y).slope)


def log_log_slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of log y against log x; both positive."""
    return slope(np.log(x), np.log(y))
