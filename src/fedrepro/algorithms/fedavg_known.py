"""FedAvg with known availability: updates are weighted by the inverse of the probability they came with.

``x <- x + eta_g (1/m) sum_{i in A} Delta_i / p_i^t``, with the clipped p_i^t of the round's own draw; a
client with probability zero is never drawn. (Perazzone et al., 2022; in the FedSWE paper "FedAvg with known
p_i".)
"""

from dataclasses import dataclass

from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "Perazzone et al., Communication-efficient device scheduling for federated learning, INFOCOM 2022"
MEMORY = "d"


@dataclass(frozen=True)
class Params:
    """No hyper-parameters of its own."""


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Move the server by the inverse-probability weighted sum over the number of all clients."""
    weight = (1 / cohort.probability).to(delta.dtype)
    state["server"].add_(weight @ delta, alpha=cohort.global_lr / cohort.total)
