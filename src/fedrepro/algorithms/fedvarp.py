"""FedVARP: the server corrects the mean update by what it remembers of each client.

    v = mean_{i in A} (Delta_i - y_i) + mean_{all i} y_i ;   x <- x + eta_g v ;   y_i <- Delta_i for i in A

y_i starts at zero; the mean over all is the one before this round's replacement. (Jhunjhunwala et al., 2022;
with raw updates, and no move in an empty round, as in the code behind the FedSWE paper.)
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "Jhunjhunwala et al., FedVARP: tackling the variance due to partial client participation, UAI 2022"
MEMORY = "m*d"
REFRESH = 500  # rounds after which the running mean is computed anew, against rounding


@dataclass(frozen=True)
class Params:
    """``empty``: the move in an empty round, none, or the ``mean`` of the memory, the formula's limit."""

    empty: Literal["zero", "mean"] = "zero"


def init(params: Params, server: Tensor, clients: int) -> State:
    """An empty memory and its mean."""
    return {
        "server": server,
        "memory": server.new_zeros(clients, len(server)),
        "mean": server.new_zeros(len(server)),
    }


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Move by the corrected mean update, then replace the memory of the active clients."""
    memory, mean = state["memory"], state["mean"]
    if len(delta):
        change = delta - memory[cohort.clients]
        state["server"].add_(change.mean(0) + mean, alpha=cohort.global_lr)
        mean.add_(change.sum(0), alpha=1 / cohort.total)
        memory[cohort.clients] = delta
    elif params.empty == "mean":
        state["server"].add_(mean, alpha=cohort.global_lr)
    if (cohort.t + 1) % REFRESH == 0:
        mean.copy_(memory.mean(0))
