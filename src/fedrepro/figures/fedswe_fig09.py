"""Figure 9 of FedSWE: rounds to 40 % test accuracy on SVHN against the interpolation coefficient k."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation.window_panels import by_k_figure, draw_rounds
from fedrepro.presentation.windows import rounds_to_level

PAPER = "fedswe"
ID = "fig09"
NEEDS = ("fedswe_windows_svhn",)


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The first evaluated round with 40 % of every run; empty where it is never reached."""
    return rounds_to_level(frames, NEEDS)


def draw(data: pd.DataFrame) -> Figure:
    """Both evaluated models over k; (a) static, (b) staircase."""
    return by_k_figure(data, draw_rounds)
