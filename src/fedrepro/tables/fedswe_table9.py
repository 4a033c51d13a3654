"""Table 9 of FedSWE: accuracy against the heterogeneity of the data, SVHN."""

from collections.abc import Mapping

import pandas as pd

from fedrepro.presentation.accuracy import accuracy_table
from fedrepro.presentation.tables import Table

PAPER = "fedswe"
ID = "table9"
NEEDS = ("fedswe_table9",)
REFERENCE = "table9"


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """Values of alpha side by side, otherwise as Table 2."""
    title = "FedSWE, Table 9: accuracy (%) against alpha, mean ± standard deviation over seeds"
    return accuracy_table(title, frames["fedswe_table9"], reference, "partition.alpha", "alpha")
