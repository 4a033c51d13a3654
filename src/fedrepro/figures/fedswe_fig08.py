"""Figure 8 of FedSWE: test accuracy on SVHN against the interpolation coefficient k."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.window_panels import by_k_figure, draw_final
from fedrepro.presentation.windows import final_accuracy

PAPER = "fedswe"
ID = "fig08"
NEEDS = ("fedswe_windows_svhn",)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean over the final rounds of a run, then mean and standard deviation over seeds."""
    return final_accuracy(frames, NEEDS)


def draw(data: pd.DataFrame) -> Figure:
    """Both evaluated models over k; (a) static, (b) staircase."""
    return by_k_figure(data, draw_final)
