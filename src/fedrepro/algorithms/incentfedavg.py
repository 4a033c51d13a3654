"""IncentFedAvg: FedAvg whose clients choose in a game how many images they train on.

Client i runs its local steps on a random subset of ``ceil(N_i)`` of its images, and moves N_i by a projected
gradient step of the game (`fedrepro.core.game`). The server averages with the new numbers of those who
trained:

    x <- x + eta_g sum_i p_i Delta_i ,   p_i = N_i / sum_j N_j

(Algorithm 1; a client at zero neither trains nor counts.) Where the numbers stay as they are, this is FedAvg
weighted by data (McMahan et al., 2017).
"""

from dataclasses import dataclass

from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "Maleki, Raghavan, Yousefian, Incentive-Aware Federated Averaging under Strategic Participation"
MEMORY = "d"
GAME = True


@dataclass(frozen=True)
class Params:
    """No hyper-parameters of its own; the game and its step sizes are keys of the training run."""


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Move the server by the weighted mean update."""
    if len(delta):
        share = cohort.images / cohort.images.sum()
        state["server"].add_(share.to(delta.dtype) @ delta, alpha=cohort.global_lr)
