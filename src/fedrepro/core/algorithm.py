"""The contract between the federated loop and an algorithm plugin.

A plugin is a module with

* ``Params``: a frozen dataclass of its own hyper-parameters,
* ``round(params, state, cohort, delta)``: the server's step, the only place where state changes,

and, where the defaults do not fit,

* ``init(params, server, clients) -> state``: state before round 0 from the initial server weights (d,), which
  the state may keep and change; default: the server's model alone,
* ``select(params, state, cohort)``: positions in the cohort of those who train; default: all of them,
* ``start(params, state, cohort)``: weights (K, d) local training starts from; default: the server's,
* ``models(params, state)``: the models to evaluate by name; default: the server's. Its names stand in
  the module constant ``EVALUATED``.

State is one flat dict of tensors with the key ``server`` (d,); a plugin whose clients keep models of their
own stores them as ``local`` (m, d), and their consensus error is recorded.
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from torch import Tensor

State = dict[str, Tensor]


@dataclass(frozen=True)
class Cohort:
    """The clients that are available in a round.

    ``t``: round, from 0; ``clients``: their indices, ascending, shape (K,), possibly empty;
    ``probability``: the p_i^t they were drawn with, shape (K,); ``tiebreak``: a uniform number for each,
    shape (K,), for rules that choose among equals; ``images``: how many images each one counts for in a
    weighted mean, float64 (K,): those it holds or, in a game, its N_i after this round; ``total``: all
    clients m; ``local_lr``, ``global_lr``: eta_l(t) and eta_g.
    """

    t: int
    clients: Tensor
    probability: Tensor
    tiebreak: Tensor
    images: Tensor
    total: int
    local_lr: float
    global_lr: float


class Algorithm:
    """A plugin bound to its parameters, with the defaults of the contract filled in."""

    def __init__(self, plugin: ModuleType, params: Any):
        self._plugin, self._params = plugin, params

    def init(self, server: Tensor, clients: int) -> State:
        """State before round 0."""
        if hasattr(self._plugin, "init"):
            return self._plugin.init(self._params, server, clients)
        return {"server": server}

    def select(self, state: State, cohort: Cohort) -> Cohort:
        """The part of the cohort that trains."""
        if not hasattr(self._plugin, "select"):
            return cohort
        chosen = self._plugin.select(self._params, state, cohort)
        return replace(
            cohort,
            clients=cohort.clients[chosen],
            probability=cohort.probability[chosen],
            tiebreak=cohort.tiebreak[chosen],
            images=cohort.images[chosen],
        )

    def start(self, state: State, cohort: Cohort) -> Tensor:
        """Weights (K, d) from which the cohort trains."""
        if hasattr(self._plugin, "start"):
            return self._plugin.start(self._params, state, cohort)
        return state["server"].expand(len(cohort.clients), -1)

    def round(self, state: State, cohort: Cohort, delta: Tensor) -> None:
        """Commit a round: ``delta`` (K, d) is trained minus start weights, in the cohort's order."""
        self._plugin.round(self._params, state, cohort, delta)

    def models(self, state: State) -> dict[str, Tensor]:
        """The models to evaluate."""
        if hasattr(self._plugin, "models"):
            return self._plugin.models(self._params, state)
        return {"server": state["server"]}
