"""Lemma 4.4 of the IncentFedAvg paper: bounds for the iteratively regularised update of a monotone game.

For the weighted average Nbar_R of the first R rounds, (i) ``h(Nbar_R) - h(N*)`` lies between
``-C_H dist(Nbar_R, SOL)`` and an upper bound, and (ii) its dual gap lies between 0 and another. For the last
round, (iv) ``|p_i,r - p_i*| <= delta_0 ||N_r - N*||``, printed with ``delta_0 = (m - 1) ||N_0 - N*|| /
||N*||_1``.

What the proof of Lemma 4.3 (ii), to which (iv) refers, gives is ``(m - 1) ||N_r - N*|| / ||N*||_1``. As
printed, the bound is 0 for a start at N*, which the update leaves while lambda_r exceeds a margin.
"""

from dataclasses import dataclass
from itertools import product
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
from annotated_types import Ge
from numpy.typing import NDArray

from fedrepro.core.game import Game, dual_gap, schedules, trajectory, welfare_average
from fedrepro.core.job import Inputs, bind
from fedrepro.core.spec import AnalysisSpec, Participation
from fedrepro.errors import FedreproError

NEEDS = ("game", "participation", "rounds")
SCHEMA = pa.schema(
    {
        "start": pa.string(),  # corner, inside, equilibrium
        "round": pa.int64(),  # R
        "welfare_gap": pa.float64(),  # h(Nbar_R) - h(N*)
        "welfare_upper": pa.float64(),
        "welfare_lower": pa.float64(),
        "dual_gap": pa.float64(),  # of Nbar_R
        "dual_gap_bound": pa.float64(),
        "share_error": pa.float64(),  # max_i |p_i,R - p_i*|
        "share_bound": pa.float64(),  # (iv) as printed
        "share_bound_of_proof": pa.float64(),  # what the proof gives
        "distance": pa.float64(),  # ||Nbar_R - N*||, images
    }
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``records``: about how many R are kept, geometrically spaced."""

    records: Annotated[int, Ge(2)] = 60


class Constants(NamedTuple):
    """C_F, C_H and D_N of the lemma; suprema over the box, which are attained at its corners."""

    marginals: float
    welfare: float
    diameter: float


def constants(game: Game) -> Constants:
    """Of an affine game whose welfare gradient grows with every N_i."""
    corners = np.array(list(product(*zip(game.lower, game.upper, strict=True))))
    return Constants(
        float(np.linalg.norm(game.marginals(corners), axis=1).max()),
        float(np.linalg.norm(game.welfare_gradient(corners), axis=1).max()),
        float(np.linalg.norm(game.upper - game.lower) / np.sqrt(2)),
    )


def bounds(game: Game, chosen: Participation, rounds: int) -> tuple[Floats, Floats]:
    """The right-hand sides of (i) and (ii) for R = 1, ..., T, shape (T,) each."""
    of = constants(game)
    steps, weights = schedules(chosen, rounds)
    speed = (of.marginals + weights[0] * of.welfare) ** 2
    total = np.cumsum(steps * weights)
    welfare = (2 * of.diameter**2 + speed * np.cumsum(steps**2)) / (2 * total)
    gap = (
        weights[0] * of.diameter**2
        + speed * np.cumsum(steps**2 * weights) / 2
        + of.welfare * np.sqrt(2) * of.diameter * np.cumsum(steps * weights**2)
    ) / total
    return welfare, gap


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a start and recorded R; starts are the lower corner, ``participation.start``, and N*."""
    assert spec.game and spec.participation and spec.rounds
    chosen = spec.participation
    game = Game(*bind("game", spec.game), chosen, spec.seed)
    game.require("Lemma 4.4", "strongly", "merely")
    if chosen.welfare_weight == 0 or game.equilibria is None:
        raise FedreproError(
            f"Lemma 4.4 needs a positive participation.welfare_weight and known equilibria (game {game.name})"
        )
    best = game.equilibria[0]
    inside = game.lower + chosen.start * (game.upper - game.lower)
    starts = {"corner": game.lower, "inside": inside, "equilibrium": best}
    path = trajectory(game, chosen, spec.rounds, np.stack(list(starts.values())))
    average = welfare_average(path, chosen)
    welfare_bound, gap_bound = bounds(game, chosen, spec.rounds)
    rounds = np.unique(np.geomspace(1, spec.rounds, params.records).round().astype(np.int64))
    factor = (len(best) - 1) / best.sum()
    parts = []
    for number, (name, start) in enumerate(starts.items()):
        mean, last = average[rounds - 1, number], path[rounds, number]
        away = np.linalg.norm(last - best, axis=1)
        share = last / last.sum(axis=1, keepdims=True) - best / best.sum()
        columns = {
            "start": pa.array([name] * len(rounds)),
            "round": rounds,
            "welfare_gap": game.welfare(mean) - game.welfare(best),
            "welfare_upper": welfare_bound[rounds - 1],
            "welfare_lower": -constants(game).welfare * game.distance(mean),
            "dual_gap": np.array([dual_gap(game, n) for n in mean]),
            "dual_gap_bound": gap_bound[rounds - 1],
            "share_error": np.abs(share).max(axis=1),
            "share_bound": factor * np.linalg.norm(start - best) * away,
            "share_bound_of_proof": factor * away,
            "distance": np.linalg.norm(mean - best, axis=1),
        }
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)
