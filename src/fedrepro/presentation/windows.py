"""The data of FedSWE's Figures 6 to 12: two groups of clients that are available in turn (Section 7.1)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedrepro.presentation.training import curves, final_window, first_reach, over_seeds, tidy

LEVEL = 0.4  # the test accuracy of Figures 9 and 12
BY = ["paper_dataset", "dataset", "dynamics.inside", "algorithm", "k_over_m", "evaluated"]
Frames = Mapping[str, pd.DataFrame]


def rows_of(frames: Frames, needs: Sequence[str]) -> pd.DataFrame:
    """Test rows of several experiments, of the models that the figures show.

    ``end`` says whose window has just ended after a round: that of the ``first`` group of clients, that of
    the ``second``, with which the period ends, or of neither (empty).
    """
    frame = tidy(pd.concat([frames[need] for need in needs], ignore_index=True))
    frame = frame[(frame["split"] == "test") & frame["evaluated"].isin(["server", "client_mean"])]
    position = frame["round"] % frame["dynamics.period"]
    second, first = position == 0, 2 * position == frame["dynamics.period"]
    return frame.assign(end=np.select([second, first], ["second", "first"], default=""))


def consensus(frames: Frames, needs: Sequence[str]) -> pd.DataFrame:
    """Figure 6: consensus error at the end of every period, mean and standard deviation over seeds."""
    rows = rows_of(frames, needs)
    chosen = rows[(rows["end"] == "second") & (rows["evaluated"] == "server") & (rows["round"] > 0)]
    return curves(chosen, BY, "consensus_error")


def accuracy_curves(frames: Frames, needs: Sequence[str]) -> pd.DataFrame:
    """Figures 7 and 10: test accuracy at the ends of both windows, of the baselines, k = 0 and k = m."""
    rows = rows_of(frames, needs)
    chosen = rows[(rows["end"] != "") & rows["k_over_m"].isin([0.0, 1.0, np.nan])]
    return curves(chosen, [*BY, "end"], "accuracy")


def final_accuracy(frames: Frames, needs: Sequence[str]) -> pd.DataFrame:
    """Figures 8 and 11: test accuracy over the final rounds, at both window ends and at each alone."""
    rows = rows_of(frames, needs)
    rows = rows[rows["end"] != ""]
    runs = pd.concat([rows.assign(end="both"), rows], ignore_index=True)
    return over_seeds(final_window(runs, [*BY, "end"]), [*BY, "end"], "accuracy")


def rounds_to_level(frames: Frames, needs: Sequence[str]) -> pd.DataFrame:
    """Figures 9 and 12: the first evaluated round of every run with 40 % test accuracy; empty: never."""
    return first_reach(rows_of(frames, needs), [*BY, "rounds"], LEVEL)


def availability(frames: Frames, need: str) -> pd.DataFrame:
    """Panels e and f: p_i^t of one client of each group."""
    frame = tidy(frames[need])
    clients = frame.groupby("cell")["client"].transform("nunique")
    group = frame["client"] * frame["dynamics.groups"] // clients + 1
    columns = ["dynamics.inside", "group", "base", "round", "probability"]
    return frame.assign(group=group)[columns]


def with_availability(panels: pd.DataFrame, frames: Frames, need: str) -> pd.DataFrame:
    """One table of what a figure draws; ``drawn`` tells its curves from p_i^t."""
    probability = availability(frames, need).assign(drawn="availability")
    return pd.concat([panels.assign(drawn="runs"), probability], ignore_index=True)
