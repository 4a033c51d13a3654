"""Table 2 of FedSWE: accuracy of each algorithm under three dynamics of availability."""

from collections.abc import Mapping

import pandas as pd

from fedrepro.presentation.accuracy import accuracy_table
from fedrepro.presentation.tables import Table

PAPER = "fedswe"
ID = "table2"
NEEDS = ("fedswe_table2",)
REFERENCE = "table2"


def build(frames: Mapping[str, pd.DataFrame], reference: pd.DataFrame) -> Table:
    """Data sets side by side; the headline reading on the server's model, then what is sensitivity."""
    title = "FedSWE, Table 2: accuracy (%), mean ± standard deviation over seeds"
    return accuracy_table(title, frames["fedswe_table2"], reference)
