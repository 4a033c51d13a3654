"""What the tables of FedSWE's accuracies share: final windows, means over seeds, published values, ranks.

As in the paper's Table 2: the mean over the evaluations of a run's last rounds, then mean and standard
deviation over seeds; the best of the algorithms that need neither memory nor known availability is bold, the
second best underlined. What is no headline (another reading, another evaluated model) has no rank.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from fedrepro.presentation import training
from fedrepro.presentation.naming import display
from fedrepro.presentation.tables import Cell, Group, Table

SPLITS = ("train", "test")
AIDED = ("fedavg_known", "mifa", "fedvarp")  # by memory of updates or known availability
MODELS = {
    "server": "",
    "client_mean": ", mean of the clients' models",
    "pre_stretch": ", before the stretch",
}
LINE = ["algorithm", "k_over_m"]
KEYS = ["reading", "dynamics", "dataset", *LINE, "split", "evaluated"]


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """A collected experiment with one row an evaluation, in the order of its cells.

    ``dataset`` becomes the paper's data set and ``ran_on`` the one that stands for it; ``reading`` is empty
    where the block has none; a missing cell has a row for each split and each model that its algorithm
    evaluates elsewhere.
    """
    frame = training.tidy(frame).rename(columns={"dataset": "ran_on", "paper_dataset": "dataset"})
    frame["reading"] = frame["reading"].fillna("")
    frame = frame.reset_index(names="position")
    missing = frame[frame["status"] == "missing"].drop(columns=["evaluated", "split"])
    found = frame[frame["status"] != "missing"]
    models = found[["algorithm", "evaluated"]].drop_duplicates()
    missing = missing.merge(models, on="algorithm", how="left").fillna({"evaluated": "server"})
    missing = missing.merge(pd.DataFrame({"split": SPLITS}), how="cross")
    return pd.concat([found, missing]).sort_values("position", kind="stable")


def headline(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first reading and the server's model."""
    return frame[(frame["reading"] == frame["reading"].iloc[0]) & (frame["evaluated"] == "server")]


def accuracies(frame: pd.DataFrame, field: str = "dataset") -> pd.DataFrame:
    """One row per line and column of a table of a `tidy` frame, in percent.

    A line of which a run diverged has no mean; missing runs are left out of it. ``status`` says both.
    """
    keys = [*dict.fromkeys([*KEYS, field]), "ran_on"]
    kept = frame[training.in_final_window(frame) | (frame["status"] != "ok")]
    by = [*keys, "seed", "status"]
    runs = kept.groupby(by, dropna=False, sort=False)["accuracy"].mean().reset_index()
    rows: list[dict[str, Any]] = []
    for key, group in runs.groupby(keys, dropna=False, sort=False):
        ok = 100 * group.loc[group["status"] == "ok", "accuracy"]
        shown = len(ok) > 0 and not (group["status"] == "diverged").any()
        values = {
            "ours_mean": ok.mean() if shown else float("nan"),
            "ours_spread": ok.std(ddof=1) if shown else float("nan"),
            "n": len(ok),
            "status": status(group["status"]),
        }
        rows.append(dict(zip(keys, key, strict=True)) | values)
    return pd.DataFrame(rows)


def status(of_runs: "pd.Series[Any]") -> str:
    """``ok``, or how many of the runs diverged or are missing."""
    counts = {word: int((of_runs == word).sum()) for word in ("diverged", "missing")}
    return ", ".join(f"{n}/{len(of_runs)} {word}" for word, n in counts.items() if n) or "ok"


def accuracy_table(
    title: str, frame: pd.DataFrame, reference: pd.DataFrame, field: str = "dataset", name: str = ""
) -> Table:
    """Ours beside the published accuracies, the values of ``field`` (called ``name``) side by side."""
    rows = _with_published(accuracies(tidy(frame), field), reference, field)
    values = list(rows[field].unique())
    columns = ["Algorithm"]
    for value in values:
        facts = rows[rows[field] == value].iloc[0]
        mark = "" if facts["comparable"] else " (not comparable)"
        for split in SPLITS:
            if field == "dataset":
                columns.append(f"{display(facts['ran_on'])}, {split}: ours")
                columns.append(f"{display(str(value))}, {split}: published{mark}")
            else:
                columns += [f"{name} = {value}, {split}: ours", f"published{mark}"]
    return Table(title, rows, columns, list(_groups(rows, field, values)), _notes(rows))


def _with_published(ours: pd.DataFrame, reference: pd.DataFrame, field: str) -> pd.DataFrame:
    published = reference.rename(
        columns={
            "value": "published_mean", "spread": "published_spread", "n": "published_n",
            "algorithm.k_over_m": "k_over_m",
        }
    )  # fmt: skip
    on = list(dict.fromkeys(["dynamics", "dataset", field, *LINE, "split"]))
    published["k_over_m"] = published["k_over_m"].astype(float)
    facts = ["locator", "published_mean", "published_spread", "published_n", "source"]
    rows = ours.merge(published[[*on, *facts]], on=on, how="left")
    rows["comparable"] = rows["ran_on"] == rows["dataset"]
    values = ["ours_mean", "ours_spread", "n", "status"]
    return rows[[*dict.fromkeys([*KEYS, field]), *facts, "ran_on", "comparable", *values]]


def _groups(rows: pd.DataFrame, field: str, values: list[Any]) -> Iterator[Group]:
    """Per dynamics the ranked lines and the aided ones; then, as sensitivity, all that is no headline."""
    main = headline(rows)
    for dynamics, part in main.groupby("dynamics", sort=False):
        aided = part["algorithm"].isin(AIDED)
        name = display(str(dynamics))
        yield name, _lines(part[~aided], field, values, ranked=True)
        if aided.any():
            yield f"{name}, aided by memory or known availability", _lines(part[aided], field, values)
    others = rows[rows["reading"] == rows["reading"].iloc[0]].drop(main.index)
    for dynamics, part in others.groupby("dynamics", sort=False):
        title = f"Sensitivity, another model evaluated: {display(str(dynamics))}"
        yield title, _lines(part, field, values)
    others = rows[rows["reading"] != rows["reading"].iloc[0]]
    for (reading, dynamics), part in others.groupby(["reading", "dynamics"], sort=False):
        title = f"Sensitivity, reading {reading}: {display(str(dynamics))}"
        yield title, _lines(part, field, values)


def _lines(rows: pd.DataFrame, field: str, values: list[Any], *, ranked: bool = False) -> list[list[Cell]]:
    lines = []
    for (algorithm, k, model), line in rows.groupby([*LINE, "evaluated"], dropna=False, sort=False):
        cells = [Cell(label(str(algorithm), k) + MODELS[str(model)])]
        for value in values:
            for split in SPLITS:
                own = line[(line[field] == value) & (line["split"] == split)]
                rivals = rows[(rows[field] == value) & (rows["split"] == split)]
                cells += _cells(own, rivals if ranked else None)
        lines.append(cells)
    return lines


def _cells(own: pd.DataFrame, rivals: pd.DataFrame | None) -> list[Cell]:
    """Ours and the published value."""
    if own.empty:
        return [Cell(""), Cell("")]
    facts = own.iloc[0]
    published = "none"
    if pd.notna(facts["published_mean"]):
        published = pm(facts["published_mean"], facts["published_spread"])
    if pd.isna(facts["ours_mean"]):
        return [Cell(facts["status"]), Cell(published)]
    text = pm(facts["ours_mean"], facts["ours_spread"])
    text += "" if facts["status"] == "ok" else f" ({facts['status']})"
    if rivals is None:
        return [Cell(text), Cell(published)]
    rank = int((rivals["ours_mean"] > facts["ours_mean"]).sum())
    emphasis = {0: "bold", 1: "underlined"}.get(rank, "")
    return [Cell(text, emphasis), Cell(published)]  # type: ignore[arg-type]


def pm(mean: float, spread: float) -> str:
    """Mean and standard deviation as the paper prints them; one seed has no deviation."""
    return f"{mean:.1f}" + ("" if pd.isna(spread) else f" ± {spread:.1f}")


def label(algorithm: str, k_over_m: float) -> str:
    """The written form of an algorithm with its interpolation coefficient."""
    if pd.isna(k_over_m):
        return display(algorithm)
    k = {0.0: "0", 1.0: "m"}.get(k_over_m, f"{k_over_m:g} m")
    return f"{display(algorithm)}, k = {k}"


def not_comparable(rows: pd.DataFrame) -> list[str]:
    """A note where a data set of ours only stands for the paper's."""
    pairs = rows.loc[rows["dataset"] != rows["ran_on"], ["ran_on", "dataset"]].drop_duplicates()
    words = [f"{display(pair.ran_on)} for {display(pair.dataset)}" for pair in pairs.itertuples()]
    if not words:
        return []
    return [
        f"Not comparable: our data set stands for the published one, {', '.join(words)} (deviation digits)."
    ]


def _notes(rows: pd.DataFrame) -> list[str]:
    seeds = sorted(rows.loc[rows["n"] > 0, "n"].unique())
    over = f"{'/'.join(map(str, seeds))} seed" + ("" if seeds == [1] else "s")
    notes = [
        "Evaluated on the server's model. Each value is the mean over the evaluations of a run's "
        f"last rounds, then over {over}.",
        "Best of a column bold, second best underlined, among the algorithms shown that need neither memory "
        "nor known availability; sensitivity rows have no rank.",
    ]
    readings = [reading for reading in rows["reading"].unique() if reading]
    if len(readings) > 1:
        notes.append(f"Headline: reading {readings[0]}; {', '.join(readings[1:])} as sensitivity.")
    return notes + not_comparable(rows)
