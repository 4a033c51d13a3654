"""Generalised FedAvg: FedAvg over the active clients, amplified once every period.

Each round ``x <- x + mean_{i in A} Delta_i``; after the last round of a period of P rounds, counted with
the empty ones, ``x <- a + c (x - a)`` from the anchor a, the model after the previous stretch, and
``a <- x``. The amplification c is this algorithm's server step size. (Wang and Ji, 2022, Algorithm 1; c = 10
and P = 100 in the FedSWE paper, appendix H.1.)
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt
from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "Wang and Ji, A unified analysis of federated learning with arbitrary client participation, 2022"
MEMORY = "d"
EVALUATED = ("server", "pre_stretch")


@dataclass(frozen=True)
class Params:
    """``amplification`` c; ``period`` P in rounds."""

    amplification: Annotated[float, Gt(0)] = 10.0
    period: Annotated[int, Ge(1)] = 100


def init(params: Params, server: Tensor, clients: int) -> State:
    """The anchor is the initial model."""
    return {"server": server, "anchor": server.clone(), "pre_stretch": server.clone()}


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Move by the mean update; stretch at the end of a period."""
    server, anchor = state["server"], state["anchor"]
    if len(delta):
        server.add_(delta.mean(0))
    state["pre_stretch"].copy_(server)
    if (cohort.t + 1) % params.period == 0:
        server.sub_(anchor).mul_(params.amplification).add_(anchor)
        anchor.copy_(server)


def models(params: Params, state: State) -> dict[str, Tensor]:
    """The server's model, and what it was before a stretch in this round."""
    return {"server": state["server"], "pre_stretch": state["pre_stretch"]}
