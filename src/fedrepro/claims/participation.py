"""Metrics over games that were played, and over the training beside them (IncentFedAvg paper, Section 5)."""

import ast
import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedrepro.claims.data import Data, NoDataError, Where, matching, title
from fedrepro.claims.evidence import EXACT, Part, Relation, Sample, Statement, TwoSamples, metric
from fedrepro.claims.printed import published_value
from fedrepro.core.game import Game, trajectory
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice, Participation
from fedrepro.presentation import training

Floats = NDArray[np.float64]
CLIENT = ["draw", "start", "client"]


def _chosen(data: Data, experiment: str, where: Where | None = None) -> pd.DataFrame:
    frame = matching(training.tidy(data.frame(experiment)), where or {})
    if frame.empty:
        raise NoDataError(f"{experiment} has no such rows")
    return frame


def _profiles(frame: pd.DataFrame, quantity: str) -> Floats:
    """A quantity of a cell of `game_starts` as an array (draws, starts, clients)."""
    ordered = frame[frame["quantity"] == quantity].sort_values(CLIENT)
    return ordered["images"].to_numpy(float).reshape(*(ordered[name].nunique() for name in CLIENT))


def _away(n: Floats, target: Floats) -> float:
    """The largest relative distance of profiles (..., m) from a target (m,)."""
    return float((np.linalg.norm(n - target, axis=-1) / np.linalg.norm(target)).max())


@metric
def equilibrium_reached(data: Data, experiment: str, where: Where | None = None) -> list[Part]:
    """Relative distance of N_R from the equilibrium in closed form, the largest over starts, per cell."""
    parts: list[Part] = []
    for _, frame in _chosen(data, experiment, where).groupby("cell", sort=False):
        ends, target = _profiles(frame, "contribution"), _profiles(frame, "equilibrium")
        away = max(_away(n, best[0]) for n, best in zip(ends, target, strict=True))
        text = f"{title({'game': frame['game'].iloc[0]})}, caps {frame['participation.upper'].iloc[0]}"
        text = f"{text}: largest ||N_R - N*|| / ||N*|| of {ends.shape[1]} starts"
        parts.append(Statement(text, 0.0, away, "<=", EXACT))
    return parts


@metric
def same_end(data: Data, experiment: str, where: Where | None = None, draws: bool = False) -> list[Part]:
    """Relative distance of N_R from that of the first start, per game; with ``draws`` over all its draws."""
    parts: list[Part] = []
    for game, frame in _chosen(data, experiment, where).groupby("game", sort=False):
        ends = _profiles(frame, "contribution")
        ends = ends if draws else ends[:1]
        number = f"{ends.shape[0]} draws and {ends.shape[1]} starts" if draws else f"{ends.shape[1]} starts"
        kinds = len(np.unique(ends.reshape(-1, ends.shape[-1]).round(6), axis=0))
        text = f"{title({'game': game})}: largest relative distance between the ends of {number}"
        parts.append(
            Statement(text, 0.0, _away(ends, ends[0, 0]), "<=", EXACT, note=f"distinct ends: {kinds}")
        )
    return parts


@metric
def averages_close_in(data: Data, experiment: str, where: Where | None = None) -> list[Part]:
    """Minus the log-log slope of ||Nbar_R - N*|| in R over the last tenfold of rounds, per draw."""
    frame = _chosen(data, experiment, where)
    late, early, target = (_profiles(frame, name) for name in ("average", "average_before", "equilibrium"))
    distances = [np.linalg.norm(mean - target, axis=-1) for mean in (early, late)]
    slopes = np.log10(distances[0] / distances[1]).mean(axis=1)
    return [Sample("minus the log-log slope of the distance of averages from N*", slopes, "slope")]


@metric
def rate_conditions(data: Data, experiment: str) -> list[Part]:
    """The conditions of Lemma 4.4 (iii), by the exponents with which sums over rounds grow.

    A sum of r^-c grows like R^(1 - c) for c < 1, like log R for c = 1, and is finite for c > 1.
    """
    row = _chosen(data, experiment).iloc[0]
    a, b = float(row["participation.step_decay"]), float(row["participation.welfare_decay"])
    total, second, third = (max(1 - c, 0.0) for c in (a + b, a + 2 * b, 2 * a))
    return [
        Statement("sum of gamma_r lambda_r grows like R to the power", 0.0, total, ">"),
        Statement("sum of gamma_r lambda_r^2 over it, R to the power", 0.0, second - total, "<"),
        Statement("sum of gamma_r^2 over it, R to the power", 0.0, third - total, "<"),
    ]


@metric
def bounded(
    data: Data, experiment: str, column: str, bound: str, within: str, relation: Relation = "<=",
    ceiling: float | Literal["largest"] = math.inf,
) -> list[Part]:  # fmt: skip
    """A column is never beyond a bound: per case the row that comes nearest, or exceeds it most.

    Differences that float64 may leave, 1e-9 of the largest bound, are allowed. ``ceiling``: what the quantity
    cannot exceed anyhow, or that it does so where it is largest in any row; a case whose bounds are all above
    it is vacuous.
    """
    parts: list[Part] = []
    frame = _chosen(data, experiment)
    top = float(frame[column].max()) if ceiling == "largest" else ceiling
    for case, rows in frame.groupby(within, sort=False):
        measured, limit = rows[column].to_numpy(float), rows[bound].to_numpy(float)
        excess = measured - limit if relation == "<=" else limit - measured
        allowed = EXACT * float(np.abs(limit).max())
        worst = int(np.argmax(excess))
        vacuous = np.abs(limit) >= top
        told = np.abs(limit) > allowed
        note = (
            f"largest measured / bound {(measured[told] / limit[told]).max():.3g}"
            if told.any()
            else "the bound is zero"
        )
        if vacuous.any():
            note += f"; vacuous in {int(vacuous.sum())} of {len(rows)} rows"
        text = f"{title({within: case})}: {column}, round {rows['round'].iloc[worst]}"
        parts.append(
            Statement(
                text, float(limit[worst]), float(measured[worst]), relation, allowed,
                vacuous=bool(vacuous.all()), note=note,
            )
        )  # fmt: skip
    return parts


def _courses(data: Data, experiment: str) -> list[tuple[str, pd.DataFrame, Floats]]:
    """Per game cell its caps in words, N_i by recorded round (rows) and client, and the caps (m,)."""
    found = []
    for _, frame in _chosen(data, experiment).groupby("cell", sort=False):
        upper = frame.drop_duplicates("client").sort_values("client")["upper"].to_numpy(float)
        course = frame.pivot(index="round", columns="client", values="contribution").sort_index()
        found.append((f"caps {frame['participation.upper'].iloc[0]}", course, upper))
    return found


@metric
def settled(data: Data, experiment: str, caps_sum: float, late: float, share: float) -> list[Part]:
    """Changes over the last share ``late`` of rounds, of N_max, are below ``share``; levels are distinct.

    ``caps_sum``: of the games that are looked at.
    """
    parts: list[Part] = []
    for caps, course, upper in _courses(data, experiment):
        if upper.sum() != caps_sum:
            continue
        end = course[course.index >= (1 - late) * course.index.max()]
        change = ((end.max() - end.min()).to_numpy() / upper).max()
        levels = np.sort(end.iloc[-1].to_numpy())
        text = f"{caps}: largest change over the last {late:.0%} of rounds, of N_max"
        parts.append(Statement(text, share, float(change), "<"))
        parts.append(Statement(f"{caps}: smallest difference of two levels, images", 0.0,
                               float(np.diff(levels).min()), ">"))  # fmt: skip
    return parts


@metric
def total_stays(data: Data, experiment: str, since: int, within: float) -> list[Part]:
    """The sum of the N_i, from a round to the end, is the published one up to a relative difference."""
    value = published_value(data, "participation_sum")
    parts: list[Part] = []
    for _, course, _ in _courses(data, experiment):
        total = course[course.index >= since].sum(axis=1)
        for name, found in (("smallest", total.idxmin()), ("largest", total.idxmax())):
            text = f"{name} sum of N_i from round {since} on, at round {found}"
            parts.append(Statement(text, value, float(total[found]), "=", within * value))
    return parts


def _since(course: pd.DataFrame, bound: Floats, clients: Sequence[int]) -> float:
    """The first recorded round from which on the clients are at a bound; infinite where there is none."""
    there = (course[list(clients)].to_numpy() == bound[list(clients)]).all(axis=1)
    if not there[-1]:
        return math.inf
    away = np.flatnonzero(~there)
    return float(course.index[away[-1] + 1]) if len(away) else 0.0


@metric
def rounds_at_bounds(
    data: Data, experiment: str, rounds: Sequence[float], upper: Sequence[int] = (),
    lower: Sequence[int] = (),
) -> list[Part]:  # fmt: skip
    """Clients are at their caps, and at zero, for good from a round between two numbers on."""
    parts: list[Part] = []
    for _, course, caps in _courses(data, experiment):
        cases = [("at the cap", caps, upper), ("at zero", np.zeros_like(caps), lower)]
        for words, bound, clients in cases:
            for client in clients:
                found = _since(course, bound, [client])
                text = f"client {client} {words} from round"
                parts.append(Statement(text, rounds[0], found, ">="))
                parts.append(Statement(text, rounds[1], found, "<="))
    return parts


def _played(data: Data, experiment: str) -> tuple[Floats, Floats]:
    """All rounds of a game cell, played again: N_r (R + 1, m), and the lower bounds (m,)."""
    row = _chosen(data, experiment).iloc[0]

    def group(name: str) -> dict[str, Any]:
        fields = {k.removeprefix(f"{name}."): v for k, v in row.items() if str(k).startswith(f"{name}.")}
        return {
            k: tuple(ast.literal_eval(v)) if isinstance(v, str) and v.startswith("[") else v
            for k, v in fields.items()
        }

    chosen = Participation(**group("participation"))
    game = Game(*bind("game", Choice(str(row["game"]), group("game"))), chosen, int(row["seed"]))
    return trajectory(game, chosen, int(row["rounds"])), game.lower


@metric
def straight_fall(data: Data, experiment: str, clients: Sequence[int], fit: float) -> list[Part]:
    """R^2 of a straight line through N_i,r up to the first round at the lower bound, per client."""
    path, lower = _played(data, experiment)
    parts: list[Part] = []
    for client in clients:
        at_bound = np.flatnonzero(path[:, client] <= lower[client])
        course = path[: (at_bound[0] if len(at_bound) else len(path) - 1) + 1, client]
        squared = float(np.corrcoef(np.arange(len(course)), course)[0, 1] ** 2) if np.ptp(course) else 0.0
        parts.append(Statement(f"client {client}: R^2 of a line through N_i,r", fit, squared, ">="))
    return parts


@metric
def absorbed(data: Data, experiment: str, clients: Sequence[int]) -> list[Part]:
    """In no step of the game does one of the clients rise, nor leave the lower bound once it is there."""
    path, lower = _played(data, experiment)
    parts: list[Part] = []
    for client in clients:
        course = path[:, client]
        at_bound = np.flatnonzero(course <= lower[client])
        after = course[at_bound[0] :].max() if len(at_bound) else math.inf
        text = f"client {client}: largest step upwards, images"
        parts.append(Statement(text, 0.0, float(np.diff(course).max()), "<="))
        parts.append(Statement(f"client {client}: largest N_i after it reached the bound", lower[client],
                               float(after), "<="))  # fmt: skip
    return parts


def _rounds_to_loss(run: pd.DataFrame, loss: float) -> float:
    """First evaluation with at most a loss, at least round 1, censored at T; NaN where the run diverged."""
    if (run["status"] != "ok").any():
        return math.nan
    found = run.loc[run["loss"] <= loss, "round"]
    return float(max(1, found.min() if len(found) else run["rounds"].iloc[0]))


def _training_loss(data: Data, experiment: str) -> pd.DataFrame:
    """Evaluations on the training set of one experiment alone, which may share cells with others."""
    frame = Data({experiment: data.frame(experiment)}, data.published, data.view).training
    return frame[frame["split"] == "train"]


def _speeds(data: Data, experiment: str) -> pd.DataFrame:
    """Per seed (rows) and H, the rounds to the final training loss of the run with the smallest H."""
    frame = _training_loss(data, experiment)
    rows: dict[int, dict[int, float]] = {}
    for seed, runs in frame.groupby("seed"):
        slowest = runs[runs["local_steps"] == runs["local_steps"].min()]
        loss = float(slowest.loc[slowest["round"].idxmax(), "loss"])
        rows[int(seed)] = {int(h): _rounds_to_loss(run, loss) for h, run in runs.groupby("local_steps")}
    if not rows:
        raise NoDataError(f"no runs of {experiment}")
    return pd.DataFrame(rows).T.sort_index(axis=1)


@metric
def local_steps_speed(data: Data, experiment: str) -> list[Part]:
    """Log ratio of the rounds to the loss at which the smallest H ends, of neighbouring values of H."""
    table = np.log(_speeds(data, experiment))
    return [
        Sample(f"H = {b} against H = {a}", (table[b] - table[a]).to_numpy(), "log ratio")
        for a, b in itertools.pairwise(table.columns)
    ]


@metric
def speed_of_local_steps(data: Data, ours: str, against: str) -> list[Part]:
    """Log ratio of the rounds with the smallest and the largest H, of two experiments, per seed of each."""
    tables = [np.log(_speeds(data, experiment)) for experiment in (ours, against)]
    first, second = ((table.iloc[:, 0] - table.iloc[:, -1]).to_numpy() for table in tables)
    return [TwoSamples(f"{ours} against {against}", first, second, "log ratio")]


@metric
def time_scales(data: Data, pairs: dict[str, str], within: float) -> list[Part]:
    """Common log of the ratio of rounds in which participation and the model settle, per H and seed.

    ``pairs``: trained experiment and its game. Participation has settled once N_r stays within a share of
    its last value, in norm; the model once its loss is that near to its final one.
    """
    parts: list[Part] = []
    for trained, game in pairs.items():
        (_, course, _), *_ = _courses(data, game)
        target = course.iloc[-1].to_numpy()
        far = np.linalg.norm(course - target, axis=1) > within * np.linalg.norm(target)
        settled_at = max(1.0, float(course.index[np.flatnonzero(far)[-1] + 1])) if far.any() else 1.0
        for h, group in _training_loss(data, trained).groupby("local_steps"):
            values = [
                math.log10(settled_at / _rounds_to_loss(run, (1 + within) * float(run["loss"].iloc[-1])))
                for _, run in group.groupby("run")
            ]
            parts.append(Sample(f"{trained}, H = {h:g}", np.array(values), "log10"))
    if not parts:
        raise NoDataError("no training beside the games")
    return parts
