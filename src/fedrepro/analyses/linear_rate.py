"""Lemma 4.3 of the IncentFedAvg paper: in a strongly monotone game N_r and p_r converge linearly.

``||N_r - N*|| <= (1 - mu_F gamma / 2)^r ||N_0 - N*||`` and ``|p_i,r - p_i*| <= delta_r``, where ``delta_0 =
(m - 1) ||N_0 - N*|| / ||N*||_1`` shrinks at the same rate, for steps ``gamma <= mu_F / L_F^2``.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge

from fedrepro.core.game import Game, extragradient, trajectory
from fedrepro.core.job import Inputs, bind
from fedrepro.core.spec import AnalysisSpec
from fedrepro.errors import FedreproError

NEEDS = ("game", "participation", "rounds")
SCHEMA = pa.schema(
    {
        "round": pa.int64(),
        "distance": pa.float64(),  # ||N_r - N*||, images
        "distance_bound": pa.float64(),  # the lemma's, (i)
        "share_error": pa.float64(),  # max_i |p_i,r - p_i*|
        "share_bound": pa.float64(),  # the lemma's delta_r, (ii)
        "solver_distance": pa.float64(),  # of N* from what the extragradient method finds, images
    }
)
ITERATIONS = 2000  # of the extragradient method


@dataclass(frozen=True)
class Params:
    """``records``: about how many rounds are kept, evenly and geometrically spaced."""

    records: Annotated[int, Ge(2)] = 200


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a recorded round."""
    assert spec.game and spec.participation and spec.rounds
    chosen = spec.participation
    game = Game(*bind("game", spec.game), chosen, spec.seed)
    game.require("Lemma 4.3", "strongly")
    largest = game.modulus / game.lipschitz**2
    if chosen.step_size > largest * (1 + 1e-9):
        raise FedreproError(
            f"key 'participation.step_size': Lemma 4.3 holds up to mu_F / L_F^2 = {largest:g}, not for "
            f"{chosen.step_size:g}"
        )
    if game.equilibria is None:
        raise FedreproError(f"game {game.name} has no closed form to measure the distance from")
    target = game.equilibria[0]
    path = trajectory(game, chosen, spec.rounds)
    spaced = np.geomspace(1, spec.rounds, params.records // 2)
    kept = np.concatenate([[0], spaced, np.linspace(0, spec.rounds, params.records // 2)])
    rounds = np.unique(kept.round().astype(np.int64))
    distance = np.linalg.norm(path - target, axis=1)
    shares = path / path.sum(axis=1, keepdims=True)
    rate = (1 - game.modulus * chosen.step_size / 2) ** rounds
    delta = (len(target) - 1) * distance[0] / target.sum()
    solved = extragradient(game, game.upper, 0.5 / game.lipschitz, ITERATIONS)
    columns = {
        "round": rounds,
        "distance": distance[rounds],
        "distance_bound": rate * distance[0],
        "share_error": np.abs(shares - target / target.sum()).max(axis=1)[rounds],
        "share_bound": rate * delta,
        "solver_distance": np.full(len(rounds), np.linalg.norm(solved - target)),
    }
    return pa.table(columns)
