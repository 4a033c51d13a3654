"""The smallest weight lambda_0 with which Figure 3 of the IncentFedAvg paper looks as reported, for a while.

Costs are within the paper's range, so the limit is everybody at the cap. While ``lambda_r > -F_i`` client i
is driven out all the same. Sought is the smallest lambda_0 whose total is within 1 % of 46,000 from round
1,000 to round 10,000, and measured how long it stays there. The search is by steps of ``coarse`` grid points,
then by bisection: much larger weights drive out the other clients as well, so the settings that do are an
interval.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Gt

from fedrepro.core import checks
from fedrepro.core.checks import Check
from fedrepro.core.game import Floats, Game, trajectory
from fedrepro.core.job import Inputs, bind
from fedrepro.core.selection import SETTLED, STAYING, TOLERANCE, WATCHED, is_reported, stays
from fedrepro.core.spec import AnalysisSpec, Count
from fedrepro.errors import FedreproError

NEEDS = ("game", "participation", "rounds")
SCHEMA = checks.SCHEMA


@dataclass(frozen=True)
class Params:
    """``spacing`` of the grid of lambda_0; ``coarse``: grid points in a step of the first search."""

    spacing: Annotated[float, Gt(0)] = 0.001
    coarse: Count = 20


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a finding, beside the ``participation.welfare_weight`` of the setting that a figure shows."""
    assert spec.game and spec.participation and spec.rounds
    chosen, rounds = spec.participation, spec.rounds
    game = Game(*bind("game", spec.game), chosen, spec.seed)
    game.require("the selection by a welfare loss", "merely")
    if chosen.welfare_weight == 0 or game.equilibria is None:
        raise FedreproError(
            f"a search for lambda_0 needs a positive participation.welfare_weight to compare with, and known "
            f"equilibria (game {game.name})"
        )

    def totals(weight: float, horizon: int) -> Floats:
        return trajectory(game, replace(chosen, welfare_weight=weight), horizon).sum(axis=1)

    def meets(point: int) -> bool:
        return stays(totals(point * params.spacing, WATCHED), game.upper)

    def last(weight: float) -> float:
        return float(np.flatnonzero(is_reported(totals(weight, rounds), game.upper))[-1])

    stop = next(
        (point for point in range(params.coarse, round(1 / params.spacing), params.coarse) if meets(point)),
        None,
    )
    if stop is None:
        raise FedreproError(
            f"no lambda_0 up to 1 keeps the total within 1 % of the reported one in rounds {SETTLED} to "
            f"{WATCHED}; choose other costs (game.cost_share) or steps (participation.step_size)"
        )
    found = bisect_left(range(stop), True, lo=stop - params.coarse, key=meets) * params.spacing
    shown = chosen.welfare_weight
    wanted = float(game.upper[STAYING].sum())
    head, where = "Nearest settings", "Figure 3 (c), found by search"
    return checks.table([
        Check(head, where, f"smallest lambda_0 with 46,000 in rounds {SETTLED} to {WATCHED}; below (c)",
              shown, found),
        Check(head, where, f"lambda_0 = {found:.3g}: last of {rounds} rounds with 46,000", rounds,
              last(found), ">="),
        Check(head, where, f"lambda_0 = {shown:g}, as shown: last of {rounds} rounds with 46,000", rounds,
              last(shown), ">="),
        Check(head, where, "limit of the total, whatever lambda_0", wanted,
              float(game.equilibria[0].sum()), "=", TOLERANCE * wanted),
    ])  # fmt: skip
