"""In how many draws the zero-sum game of the IncentFedAvg paper ends as reported (Section 5.3).

Reported are clients 0 and 4 at their caps. The paper draws alpha_i and beta_i without saying how: here
``alpha ~ U(0, 5)`` and ``beta ~ U(0, 1)``. A common factor of all alpha_i acts as one of the step size, which
is open as well; each draw has the factor with which the fastest client moves by ``participation.step_size``
images in round 0.

Under ``sum`` both can be at their caps in no round after N_0: client i stays there while ``2 g_i`` is at
least the sum of all g_j (see the game), and both together would leave nothing for the other g_j > 0. Under
``mean`` it takes a g_i above the mean.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedrepro.core import checks
from fedrepro.core.checks import Check
from fedrepro.core.game import Game, trajectory
from fedrepro.core.job import Inputs, bind
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Choice, Count
from fedrepro.errors import FedreproError

NEEDS = ("game", "participation", "rounds")
SCHEMA = checks.SCHEMA

Floats = NDArray[np.float64]
CLIMBING = [0, 4]
ALPHA = 5.0  # the largest that is drawn


@dataclass(frozen=True)
class Params:
    """``draws`` of alpha and beta."""

    draws: Count = 10000


class Ends(NamedTuple):
    """Of clients 0 and 4, in every draw (draws,).

    ``capped``: whether both end at their caps; ``largest``: whether their g_i are the largest two at N_0;
    ``shown``: whether both end at their caps with the game's own alpha and beta.
    """

    capped: NDArray[np.bool_]
    largest: NDArray[np.bool_]
    shown: bool


def ends(spec: AnalysisSpec, competitors: str, alpha: Floats, beta: Floats) -> Ends:
    """Play all draws (draws, m) at once, and the game of ``spec``, under one rule."""
    assert spec.game and spec.participation and spec.rounds
    choice = Choice(spec.game.name, {**spec.game.params, "competitors": competitors})
    game = Game(*bind("game", choice), spec.participation, spec.seed)
    own = game.coefficients
    every = np.vstack([alpha, own.alpha]), np.vstack([beta, own.beta])
    start = game.lower + spec.participation.start * (game.upper - game.lower)
    start = np.tile(start, (len(every[0]), 1))
    game.coefficients = own._replace(alpha=every[0], beta=every[1])
    fastest = np.abs(game.marginals(start)).max(axis=1, keepdims=True)
    game.coefficients = own._replace(alpha=every[0] / fastest, beta=every[1])
    capped = (trajectory(game, spec.participation, spec.rounds, start)[-1] == game.upper)[:, CLIMBING].all(
        axis=1
    )
    total = start.sum(axis=1, keepdims=True)
    order = np.argsort(every[0] * every[1] * total ** (-every[1] - 1), axis=1)[:, -len(CLIMBING) :]
    largest = (np.sort(order, axis=1) == CLIMBING).all(axis=1)
    return Ends(capped[:-1], largest[:-1], bool(capped[-1]))


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a finding."""
    assert spec.game and spec.participation
    clients = len(spec.participation.upper)
    if spec.game.name != "zero_sum" or clients <= max(CLIMBING):
        raise FedreproError(
            f"key 'game': {spec.game.name} with {clients} clients is not the game of Figure 4; use zero_sum "
            f"with more than {max(CLIMBING)} clients"
        )
    rng = stream(spec.seed, "game", "", 3)
    alpha, beta = ALPHA * rng.random((params.draws, clients)), rng.random((params.draws, clients))
    head, where = "Nearest settings", "Section 5.3 (l. 650)"
    both = "clients 0 and 4 end at their caps"
    rows = []
    for rule, name in (("sum", "cost: sum, as stated"), ("mean", "cost: mean of the others")):
        found = ends(spec, rule, alpha, beta)
        few = 1 / params.draws
        rows += [
            Check(head, where, f"{name}: share of {params.draws} draws in which {both}", few,
                  float(found.capped.mean()), ">="),
            Check(head, where, f"{name}: the same, of draws that give them the two largest coefficients", few,
                  float(found.capped[found.largest].mean()), ">="),
            Check(head, "Figure 4", f"{name}: {both} with the alpha and beta shown", 1.0,
                  float(found.shown), "="),
        ]  # fmt: skip
    return checks.table(rows)
