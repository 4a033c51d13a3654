"""FedVARP: the server corrects the mean update by what it remembers of each client.

    v = mean_{i in A} (Delta_i - y_i) + mean_{all i} y_i ;   x <- x + eta_g v ;   y_i <- Delta_i for i in A

y_i starts at zero; the mean over all is the one before this round's replacement. (Jhunjhunwala et al., 2022;
with raw updates, and no move in an empty round, as in the code behind the FedSWE paper.)
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedrepro.core import memory
from fedrepro.core.algorithm import Cohort, State

CITATION = "Jhunjhunwala et al., FedVARP: tackling the variance due to partial client participation, UAI 2022"
MEMORY = "m*d"


@dataclass(frozen=True)
class Params:
    """``empty``: the move in an empty round, none, or the ``mean`` of the memory, the formula's limit."""

    empty: Literal["zero", "mean"] = "zero"


def init(params: Params, server: Tensor, clients: int) -> State:
    """An empty memory and its mean."""
    return memory.empty(server, clients)


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Move by the corrected mean update, then replace the memory of the active clients."""
    if len(delta):
        correction = (delta - state["memory"][cohort.clients]).mean(0)
        state["server"].add_(correction + state["mean"], alpha=cohort.global_lr)
    elif params.empty == "mean":
        state["server"].add_(state["mean"], alpha=cohort.global_lr)
    memory.remember(state, cohort, delta)
