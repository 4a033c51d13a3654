"""Where a game of participation ends from many starts, and for several draws of what it draws.

IncentFedAvg paper: the regularised game has one equilibrium (Section 2.1), every run of the welfare-selected
one ends at the same (Section 5.2), and limits depend on incentives and not on N_0 (Section 5.3).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fedrepro.core.game import Floats, Game, trajectory, welfare_average
from fedrepro.core.job import Inputs, bind
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("game", "participation", "rounds")
SCHEMA = pa.schema(
    {
        "draw": pa.int64(),  # from 0
        "start": pa.int64(),  # from 0, which is `participation.start`; the others are random profiles
        "client": pa.int64(),
        "initial": pa.float64(),  # N_i,0, images
        "contribution": pa.float64(),  # N_i,R
        "equilibrium": pa.float64(),  # N_i* in closed form, of least welfare loss; empty where unknown
        "average": pa.float64(),  # Nbar_i,R of Lemma 4.4; empty without a welfare loss
        "average_before": pa.float64(),  # the same of a tenth of the rounds
    }
)


@dataclass(frozen=True)
class Params:
    """``draws``: of what the game draws, with the seeds from that of the cell on; ``starts``: N_0 of each."""

    draws: Count = 1
    starts: Count = 20


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a draw, start and client."""
    assert spec.game and spec.participation and spec.rounds
    chosen = spec.participation
    parts = []
    for draw in range(params.draws):
        game = Game(*bind("game", spec.game), chosen, spec.seed + draw)
        clients = len(game.upper)
        shares = stream(spec.seed + draw, "game", "", 6).random((params.starts, clients))
        shares[0] = chosen.start
        path = trajectory(game, chosen, spec.rounds, game.lower + shares * (game.upper - game.lower))
        averages: list[Floats | None] = [None, None]
        if chosen.welfare_weight > 0:
            found = welfare_average(path, chosen)
            averages = [found[-1], found[max(spec.rounds // 10, 1) - 1]]
        equilibria = game.equilibria
        best = None if equilibria is None else np.tile(equilibria[0], (params.starts, 1))
        columns = {
            "draw": np.full(params.starts * clients, draw),
            "start": np.repeat(np.arange(params.starts), clients),
            "client": np.tile(np.arange(clients), params.starts),
        }
        numbers = zip(
            ("initial", "contribution", "equilibrium", "average", "average_before"),
            (path[0], path[-1], best, *averages),
            strict=True,
        )
        empty = pa.nulls(params.starts * clients, pa.float64())
        columns |= {name: empty if of is None else of.ravel() for name, of in numbers}
        parts.append(pa.table(columns).cast(SCHEMA))
    return pa.concat_tables(parts)
