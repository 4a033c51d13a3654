"""What figures and tables of training cells share: windows of a run, and averages over runs."""

from collections.abc import Sequence

import pandas as pd


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """Labels as plain strings, ``algorithm.k_over_m`` as ``k_over_m`` (empty where there is none)."""
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("category").columns, "str"))
    frame = frame.rename(columns={"algorithm.k_over_m": "k_over_m"})
    return frame.assign(k_over_m=frame["k_over_m"].astype(float) if "k_over_m" in frame else float("nan"))


def over_seeds(runs: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Mean and standard deviation over runs, per group; none where a run has no value.

    ``runs`` is how many runs the group has, ``n`` how many of them have a value, ``diverged`` how many ended
    early.
    """
    bad = runs.assign(diverged=runs["status"] == "diverged")
    groups = bad.groupby(list(by), dropna=False, sort=False)
    out = groups.agg(
        mean=(value, "mean"), std=(value, "std"), runs=("seed", "nunique"), n=(value, "count"),
        diverged=("diverged", "sum"),
    ).reset_index()  # fmt: skip
    out.loc[out["n"] < out["runs"], ["mean", "std"]] = float("nan")
    return out


def in_final_window(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Whether an evaluation belongs to a run's final rounds, at least the last one."""
    first = (frame["rounds"] - frame["evaluation.final_rounds"].clip(lower=1)).clip(lower=0)
    return frame["round"] > first


def final_window(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Accuracy of every run, averaged over the evaluations of its final rounds; empty where it diverged."""
    inside = frame["accuracy"].where(in_final_window(frame) & (frame["status"] == "ok"))
    keys = [*by, "seed", "status"]
    runs = frame.assign(accuracy=inside).groupby(keys, dropna=False, sort=False)["accuracy"]
    return runs.mean().reset_index()


def curves(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Mean and standard deviation over runs per round; a curve ends where the first of its runs diverged.

    ``diverged`` counts the runs of the whole curve that diverged.
    """
    keys = list(by)
    runs = frame.drop_duplicates([*keys, "seed"]).groupby(keys, dropna=False, sort=False)
    facts = runs.agg(total=("seed", "size"), lost=("status", lambda status: (status == "diverged").sum()))
    out = over_seeds(frame, [*keys, "round"], value).merge(facts.reset_index(), on=keys)
    out = out[out["n"] == out["total"]]
    out = out.assign(runs=out["total"], diverged=out["lost"]).drop(columns=["total", "lost"])
    return out.reset_index(drop=True)


def first_reach(frame: pd.DataFrame, by: Sequence[str], level: float) -> pd.DataFrame:
    """The first evaluated round in which a run's accuracy is at least ``level``; empty where never."""
    reached = frame["round"].where(frame["accuracy"] >= level)
    keys = [*by, "seed", "status"]
    runs = frame.assign(reached=reached).groupby(keys, dropna=False, sort=False)["reached"]
    return runs.min().reset_index()
