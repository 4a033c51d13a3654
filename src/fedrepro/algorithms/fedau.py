"""FedAU: weights from each client's own history of participation intervals.

``x <- x + eta_g (1/m) sum_{i in A} omega_i Delta_i``, where omega_i is the mean length of the client's closed
intervals as known before the round, 1 before the first is closed. An interval is closed by a participation,
or after ``cutoff`` rounds of silence, which counts as an interval of that length.
(Wang and Ji, 2024; the order of the steps is that of their released code.)
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "Wang and Ji, A lightweight method for tackling unknown participation statistics, ICLR 2024"
MEMORY = "d"


@dataclass(frozen=True)
class Params:
    """``cutoff``: the longest interval K, in rounds."""

    cutoff: Annotated[int, Ge(1)] = 50


def init(params: Params, server: Tensor, clients: int) -> State:
    """Per client: number and total length of its closed intervals, length of the running one."""
    names = ("closed", "length", "running")
    counts = {name: torch.zeros(clients, dtype=torch.int64, device=server.device) for name in names}
    return {"server": server} | counts


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Weight with what was known before the round, then close the intervals that end in it."""
    active, closed, length, running = cohort.clients, state["closed"], state["length"], state["running"]
    mean = length[active].double() / closed[active].clamp(min=1)
    weight = torch.where(closed[active] > 0, mean, 1.0).to(delta.dtype)
    state["server"].add_(weight @ delta, alpha=cohort.global_lr / cohort.total)
    running += 1
    ends = running >= params.cutoff  # a participation in the cutoff's round closes the same interval
    ends[active] = True
    closed += ends
    length += running * ends
    running *= ~ends
