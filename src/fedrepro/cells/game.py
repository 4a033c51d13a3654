"""Cells of kind ``game``: how participation evolves in a game, without training."""

import numpy as np
import pyarrow as pa

from fedrepro.core.game import Game, trajectory
from fedrepro.core.job import Artifact, Context, Inputs, Result, bind
from fedrepro.core.schedule import recorded_rounds
from fedrepro.core.spec import GameSpec
from fedrepro.core.tables import GAME_METRICS, encode


def run(spec: GameSpec, inputs: Inputs, context: Context) -> Result:
    """Run all rounds; one row a recorded round and client."""
    game = Game(*bind("game", spec.game), spec.participation, spec.seed)
    rounds = recorded_rounds(spec)
    path = trajectory(game, spec.participation, spec.rounds)[rounds]
    clients = len(game.upper)
    equilibria = game.equilibria
    columns = {
        "round": np.repeat(rounds, clients),
        "client": np.tile(np.arange(clients), len(rounds)),
        "contribution": path.ravel(),
        "marginal": np.ravel([game.marginals(n) for n in path]),
        "regret": np.ravel([game.regret(n) for n in path]),
        "equilibrium": (
            pa.nulls(path.size, pa.float64()) if equilibria is None else np.tile(equilibria[0], len(rounds))
        ),
        "upper": np.tile(game.upper, len(rounds)),
    }
    table = pa.table(columns).cast(GAME_METRICS)
    return Result({"metrics": Artifact(encode(table), len(table))})
