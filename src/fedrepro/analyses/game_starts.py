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
from fedrepro.core.spec import AnalysisSpec, Count, Participation

NEEDS = ("game", "participation", "rounds")
SCHEMA = pa.schema(
    {
        "draw": pa.int64(),  # from 0
        "start": pa.int64(),  # from 0, which is `participation.start`; the others are random profiles
        "client": pa.int64(),
        "quantity": pa.string(),  # see `quantities`
        "images": pa.float64(),
    }
)


@dataclass(frozen=True)
class Params:
    """``draws``: of what the game draws, with the seeds from that of the cell on; ``starts``: N_0 of each."""

    draws: Count = 1
    starts: Count = 20


def quantities(game: Game, chosen: Participation, rounds: int, starts: Floats) -> dict[str, Floats]:
    """What is known of runs from starts (s, m), each of that shape.

    ``initial``: N_0; ``contribution``: N_R; ``equilibrium``: N* in closed form, of least welfare loss, where
    the game knows it; ``average``, ``average_before``: Nbar_R of Lemma 4.4 and that of a tenth of the rounds,
    where a welfare loss weighs.
    """
    path = trajectory(game, chosen, rounds, starts)
    found = {"initial": path[0], "contribution": path[-1]}
    if game.equilibria is not None:
        found["equilibrium"] = np.tile(game.equilibria[0], (len(starts), 1))
    if chosen.welfare_weight > 0:
        average = welfare_average(path, chosen)
        found |= {"average": average[-1], "average_before": average[max(rounds // 10, 1) - 1]}
    return found


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a draw, quantity, start and client."""
    assert spec.game and spec.participation and spec.rounds
    chosen = spec.participation
    parts = []
    for draw in range(params.draws):
        game = Game(*bind("game", spec.game), chosen, spec.seed + draw)
        clients = len(game.upper)
        shares = stream(spec.seed + draw, "game", "", 6).random((params.starts, clients))
        shares[0] = chosen.start
        starts = game.lower + shares * (game.upper - game.lower)
        for name, images in quantities(game, chosen, spec.rounds, starts).items():
            columns = {
                "draw": np.full(images.size, draw),
                "start": np.repeat(np.arange(params.starts), clients),
                "client": np.tile(np.arange(clients), params.starts),
                "quantity": pa.array([name] * images.size),
                "images": images.ravel(),
            }
            parts.append(pa.table(columns).cast(SCHEMA))
    return pa.concat_tables(parts)
