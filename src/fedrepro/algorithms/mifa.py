"""MIFA: the server remembers every client's latest update and averages over all of them in every round.

    for i in A: y_i <- Delta_i ;   x <- x + eta_g (1/m) sum_i y_i

y_i starts at zero, and an empty round still moves the model. (Gu et al., 2021; without waiting for
everybody and with raw updates, as in the code behind the FedSWE paper. ``normalise`` stores
Delta_i / eta_l(t) and steps by eta_l(t), as in the original.)
"""

from dataclasses import dataclass

from torch import Tensor

from fedrepro.core import memory
from fedrepro.core.algorithm import Cohort, State

CITATION = (
    "Gu et al., Fast federated learning in the presence of arbitrary device unavailability, NeurIPS 2021"
)
MEMORY = "m*d"


@dataclass(frozen=True)
class Params:
    """``normalise``: whether remembered updates are divided by the local step size of their round."""

    normalise: bool = False


def init(params: Params, server: Tensor, clients: int) -> State:
    """An empty memory and its mean."""
    return memory.empty(server, clients)


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Replace the memory of the active clients, then move by the mean of all."""
    scale = cohort.local_lr if params.normalise else 1.0
    memory.remember(state, cohort, delta / scale)
    state["server"].add_(state["mean"], alpha=cohort.global_lr * scale)
