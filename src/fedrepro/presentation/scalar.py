"""What the figures and tables of scalar cells share."""

import numpy as np
import pandas as pd
from scipy import stats


def averages(frame: pd.DataFrame, *, all_trials: bool = False) -> pd.DataFrame:
    """Rows of averages, over the first 100 trials as in the paper, or over all; with a 95 % t interval.

    The columns ``gap_ci`` and ``squared_gradient_ci`` are half-widths.
    """
    mean = frame[frame["trial"].isna()].copy()
    wanted = mean.groupby("cell", observed=True)["trials"].transform("max" if all_trials else "min")
    mean = mean[mean["trials"] == wanted]
    quantile = stats.t.ppf(0.975, mean["trials"] - 1)
    for name in ("gap", "squared_gradient"):
        mean[f"{name}_ci"] = quantile * mean[f"{name}_se"]
    return mean


def last(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last recorded round of every cell."""
    return frame[frame["round"] == frame["rounds"]]


def single_trials(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of single trials."""
    return frame[frame["trial"].notna()]


def log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """Least-squares slope of log y in log x, over the points where y is positive; NaN below two points."""
    positive = y > 0
    if positive.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(x[positive]), np.log(y[positive]), 1)[0])
