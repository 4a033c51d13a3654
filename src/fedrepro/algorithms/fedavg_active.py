"""FedAvg over the active clients: the server averages the updates it receives.

``x <- x + eta_g * mean_{i in A} Delta_i``; an empty round leaves x as it is. (McMahan et al., 2017; in the
FedSWE paper the baseline "FedAvg over active", Section 7.)
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
    """Move the server by the mean update."""
    if len(delta):
        state["server"].add_(delta.mean(0), alpha=cohort.global_lr)
