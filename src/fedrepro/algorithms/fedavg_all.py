"""FedAvg over all clients: an unavailable client counts as a zero update.

``x <- x + eta_g * (1/m) sum_{i in A} Delta_i``. (FedSWE paper, appendix H.1, "FedAvg over all".)
"""

from dataclasses import dataclass

from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "McMahan et al., Communication-efficient learning of deep networks, AISTATS 2017"
MEMORY = "d"


@dataclass(frozen=True)
class Params:
    """No hyper-parameters of its own."""


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Move the server by the sum of updates over the number of all clients."""
    state["server"].add_(delta.sum(0), alpha=cohort.global_lr / cohort.total)
