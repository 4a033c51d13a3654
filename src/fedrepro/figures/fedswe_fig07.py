"""Figure 7 of FedSWE: test accuracy on SVHN when two groups of clients are available in turn."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.window_panels import accuracy_figure
from fedrepro.presentation.windows import accuracy_curves, with_availability

PAPER = "fedswe"
ID = "fig07"
NEEDS = ("fedswe_windows_svhn", "fedswe_rivals_svhn", "fedswe_windows_dynamics")


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean and standard deviation over seeds at both window ends of every period; p_i^t of two clients."""
    return with_availability(accuracy_curves(frames, NEEDS[:2]), frames, NEEDS[2])


def draw(data: pd.DataFrame) -> Figure:
    """FedSWE with k = 0 (a, b) and k = m (c, d) beside six baselines; (e, f) the availability."""
    return accuracy_figure(data)
