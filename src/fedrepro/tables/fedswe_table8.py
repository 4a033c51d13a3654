"""Table 8 of FedSWE: accuracy against the degree of non-stationarity of the sine, SVHN."""

from collections.abc import Mapping

import pandas as pd

from fedrepro.presentation.accuracy import accuracy_table
from fedrepro.presentation.tables import Table

PAPER = "fedswe"
ID = "table8"
NEEDS = ("fedswe_table8",)
REFERENCE = "table8"


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """Values of gamma side by side, otherwise as Table 2."""
    title = "FedSWE, Table 8: accuracy (%) against gamma, mean ± standard deviation over seeds"
    return accuracy_table(title, frames["fedswe_table8"], reference, "dynamics.gamma", "gamma")
