"""What metrics read: the collected experiments of a claim and the published numbers, under one view."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fedrepro.presentation import training
from fedrepro.presentation.accuracy import label
from fedrepro.presentation.naming import display

Where = Mapping[str, Any]
PERCENT = 100
ACCURACIES = {"final": ("final", "test"), "train": ("final", "train"), "peak": ("peak", "test")}


class NoDataError(LookupError):
    """A claim's cells are not among the collected ones."""


@dataclass(frozen=True)
class View:
    """Which runs decide: a reading of the paper (None: the headline), and which model is evaluated.

    ``accuracy``: what stands for the final test accuracy, a name of `ACCURACIES`.
    """

    model: str = "server"
    reading: str | None = None
    accuracy: str = "final"


@dataclass(frozen=True)
class Data:
    """``frames``: present rows of the experiments by name; ``published``: the paper's reference.csv."""

    frames: Mapping[str, pd.DataFrame]
    published: pd.DataFrame
    view: View = View()
    _known: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)  # results of `runs`

    def frame(self, experiment: str) -> pd.DataFrame:
        """Rows of one experiment."""
        if experiment not in self.frames:
            raise NoDataError(f"experiment {experiment} has not been collected")
        return self.frames[experiment]

    @cached_property
    def training(self) -> pd.DataFrame:
        """Evaluations of all runs under the view, in order of rounds; ``run`` numbers the runs."""
        if not self.frames:
            raise NoDataError("no run has been collected")
        frame = pd.concat([training.tidy(frame) for frame in self.frames.values()])
        reading = frame["reading"].fillna("").astype(str)
        wanted = self.view.reading or next((name for name in reading if name), "")
        frame = frame[(reading == wanted) | (reading == "")]
        others = frame[frame["evaluated"] == self.view.model]
        own = others["cell"].unique()
        frame = pd.concat([others, frame[(frame["evaluated"] == "server") & ~frame["cell"].isin(own)]])
        keys = ["paper_dataset", "cell"]
        frame = frame.drop_duplicates([*keys, "split", "round"]).sort_values("round", kind="stable")
        return frame.assign(run=frame.groupby(keys, sort=False, dropna=False).ngroup())

    def runs(self, of: str | Where, split: str = "test") -> pd.DataFrame:
        """One row a run, with its fields and a statistic as ``value``; NaN where it diverged.

        Parameters
        ----------
        of : str or mapping
            A name of `STATISTICS`, or that and its parameters.
        split : str
            ``test`` or ``train``.
        """
        if (of, split) == ACCURACIES["final"]:
            of, split = ACCURACIES[self.view.accuracy]
        options = {"name": of} if isinstance(of, str) else dict(of)
        key = f"{split} {sorted(options.items())}"
        if key not in self._known:
            self._known[key] = self._computed(STATISTICS[options.pop("name")], options, split)
        return self._known[key]

    def _computed(self, statistic: Callable[..., float], options: Where, split: str) -> pd.DataFrame:
        frame = self.training[self.training["split"] == split]
        groups = frame.groupby("run", sort=True)
        fields = groups.first()
        values = [
            np.nan if (group["status"] != "ok").any() else statistic(group, **options) for _, group in groups
        ]
        return fields.assign(value=values)


def final(run: pd.DataFrame) -> float:
    """Accuracy in points, mean over the evaluations of the final rounds (A50, A500)."""
    return PERCENT * float(run.loc[training.in_final_window(run), "accuracy"].mean())


def peak(run: pd.DataFrame) -> float:
    """Best accuracy over the run, in points (PK)."""
    return PERCENT * float(run["accuracy"].max())


def regular(run: pd.DataFrame) -> pd.DataFrame:
    """The evaluations on the regular grid of rounds, without the denser ones at the end."""
    return run[run["round"] % run["evaluation.test_every"] == 0]


def roughness(run: pd.DataFrame) -> float:
    """Standard deviation of differences of regular evaluations in the second half, in points (FL)."""
    late = regular(run)
    late = late[late["round"] >= late["rounds"] / 2]
    return PERCENT * float(late["accuracy"].diff().std(ddof=1))


def rounds(run: pd.DataFrame, level: float) -> float:
    """First regular evaluation with at least ``level`` points, at least round 1, censored at T (R)."""
    found = regular(run)
    reached = found.loc[found["accuracy"] >= level / PERCENT, "round"]
    return float(max(1, reached.min() if len(reached) else run["rounds"].iloc[0]))


def reached(run: pd.DataFrame, level: float) -> float:
    """1 where a regular evaluation has at least ``level`` points, else 0."""
    return float((regular(run)["accuracy"] >= level / PERCENT).any())


def log_consensus(run: pd.DataFrame) -> float:
    """Common logarithm of the consensus error, mean over the evaluations of the final rounds."""
    late = run.loc[training.in_final_window(run), "consensus_error"]
    return float(np.log10(late[late > 0]).mean())


def consensus_slope(run: pd.DataFrame) -> float:
    """Slope of the common logarithm of the consensus error per thousand rounds."""
    found = run[run["consensus_error"] > 0]
    if len(found) < 2:
        return float("nan")
    return float(np.polyfit(found["round"] / 1000, np.log10(found["consensus_error"]), 1)[0])


STATISTICS: dict[str, Callable[..., float]] = {
    function.__name__: function
    for function in (final, peak, roughness, rounds, reached, log_consensus, consensus_slope)
}


def matching(frame: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Rows whose columns have the given values; a list stands for any of its values."""
    keep = pd.Series(True, index=frame.index)
    for column, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        if column not in frame:
            return frame.iloc[:0]
        found = frame[column]
        if all(isinstance(value, int | float) for value in values):
            found = pd.to_numeric(found, errors="coerce")
            keep &= sum((np.isclose(found, value) for value in values), np.zeros(len(found), dtype=bool))
        else:
            keep &= found.astype(str).isin([str(value) for value in values])
    return frame[keep]


def title(where: Where) -> str:
    """How a choice of rows is written, e.g. ``FedSWE, k = m`` or ``SVHN, Sine, gamma = 0.3``."""
    words = []
    values = dict(where)
    if isinstance(values.get("algorithm"), list):
        words.append(" or ".join(display(name) for name in values.pop("algorithm")))
    elif "algorithm" in values:
        words.append(label(str(values.pop("algorithm")), values.pop("k_over_m", float("nan"))))
    for column, value in values.items():
        if not isinstance(value, str | list) and np.isnan(value):
            continue
        short = column.rpartition(".")[2].replace("k_over_m", "k / m")
        if isinstance(value, list):
            words.append(f"{short} of {', '.join(map(str, value))}")
        else:
            words.append(display(value) if isinstance(value, str) else f"{short} = {value:g}")
    return ", ".join(words)
