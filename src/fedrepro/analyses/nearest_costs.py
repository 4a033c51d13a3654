"""The smallest costs of clients 1 and 3 with which Figure 3 of the IncentFedAvg paper comes out as reported.

A common ratio ``c = theta_i / ||q_i||^2`` of both clients is sought by bisection on a grid: for the limit of
the update, the equilibrium of least welfare loss, and for a run that is there by round 1,000.

At c = 1, where the paper's range ends, ``F_i = 0``: both clients are indifferent, and the welfare loss alone
drives them out, by ``gamma_r lambda_r`` images a round. Below, both return to their caps.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from fedrepro.core import checks
from fedrepro.core.checks import Check
from fedrepro.core.game import Floats, Game, trajectory
from fedrepro.core.job import Inputs, bind
from fedrepro.core.selection import LEAVING, SETTLED, STAYING, TOLERANCE, WATCHED, is_reported, stays
from fedrepro.core.spec import AnalysisSpec, Count
from fedrepro.errors import FedreproError

NEEDS = ("game", "participation", "rounds")
SCHEMA = checks.SCHEMA


@dataclass(frozen=True)
class Params:
    """``resolution``: grid points in a unit of c."""

    resolution: Count = 1000


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a finding, beside the ``game.cost_share`` of the setting that a figure shows."""
    assert spec.game and spec.participation and spec.rounds
    chosen, rounds, unit = spec.participation, spec.rounds, params.resolution
    plugin, own = bind("game", spec.game)
    shown = getattr(own, "cost_share", ())
    if not shown or min(shown[client] for client in LEAVING) <= 1:
        raise FedreproError(
            f"key 'game': the cost_share of {spec.game.name} must be above 1 for clients 1 and 3, so that "
            "the smallest such value can be sought below it"
        )

    def game(point: int) -> Game:
        shares = [point / unit if client in LEAVING else share for client, share in enumerate(shown)]
        found = Game(plugin, replace(own, cost_share=tuple(shares)), chosen, spec.seed)
        found.require("the selection by a welfare loss", "merely")
        return found

    def limit(point: int) -> float:
        found = game(point).equilibria
        assert found is not None
        return float(found[0].sum())

    def totals(point: int) -> Floats:
        return trajectory(game(point), chosen, rounds).sum(axis=1)

    upper, wanted = game(0).upper, float(game(0).upper[STAYING].sum())
    highest = int(own.highest_cost * unit)

    def smallest(test: Callable[[int], bool]) -> int:
        found = bisect_left(range(highest), True, key=test)
        if found == highest:
            raise FedreproError(
                f"no theta_i up to {own.highest_cost:g} ||q_i||^2 leads to the reported total by round "
                f"{SETTLED}; raise game.highest_cost or participation.step_size"
            )
        return found

    in_limit = smallest(lambda point: bool(is_reported(np.array(limit(point)), upper)))
    in_run = smallest(lambda point: stays(totals(point), upper))
    head, where, what = (
        "Nearest settings",
        "Figure 3 (b), found by search",
        "theta / ||q||^2 of clients 1, 3",
    )
    slack = TOLERANCE * wanted
    return checks.table([
        Check(head, "Section 5.2, range of theta_i", f"smallest {what} with limit 46,000, within 1 %", 1.0,
              in_limit / unit),
        Check(head, where, f"limit of the total with {what} of {(in_limit - 1) / unit:g}", wanted,
              limit(in_limit - 1), "=", slack),
        Check(head, where, f"total after {rounds} rounds with {what} of {in_limit / unit:g}", wanted,
              float(totals(in_limit)[-1]), "=", slack),
        Check(head, where, f"smallest {what} with 46,000 in rounds {SETTLED} to {WATCHED}; below (b)",
              min(shown[client] for client in LEAVING), in_run / unit),
    ])  # fmt: skip
