"""Reading collected experiments for figures, tables and the report."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedrepro.errors import FedreproError
from fedrepro.provenance.files import checked, read_json, sidecar_path


@dataclass(frozen=True)
class Collected:
    """One collected experiment: its rows, and its sidecar with what is missing.

    A cell that is missing has one row, whose ``status`` is ``missing``.
    """

    frame: pd.DataFrame
    facts: dict[str, Any]

    @property
    def present(self) -> pd.DataFrame:
        """The rows of the cells that are there."""
        return self.frame[self.frame["status"] != "missing"]


def read_collected(paths: Iterable[Path]) -> dict[str, Collected]:
    """Read collected experiments by name, after checking them against their sidecars."""
    out = {}
    for path in paths:
        checked(path)
        facts = read_json(sidecar_path(path))
        try:
            frame = pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise FedreproError(f"{path} is not readable ({error}); delete it and run again") from error
        out[facts["experiment"]] = Collected(frame, facts)
    return out
