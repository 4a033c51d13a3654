"""FedSWE: adaptive echoing, implicit gossiping, and interpolation with the server's model.

Client i trains from its own, possibly stale model x_i and echoes the innovation once for every round since
it was last active, e_i = t - tau_i:

    x_i^dag = x_i + eta_g e_i Delta_i                               for i in A
    x       <- (sum_{i in A} x_i^dag + k x) / (|A| + k)
    x_i     <- x, tau_i <- t                                        for i in A

k = 0 is FedAWE. The weight of x is k / (|A| + k), as in Algorithm 1; equation (6) of the paper prints
another one, under which the weights do not sum to one. An empty round leaves everything as it is.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "Xiang et al., Resilience beyond stationary client unavailability (FedSWE), Algorithm 1"
MEMORY = "m*d"
EVALUATED = ("server", "client_mean")


@dataclass(frozen=True)
class Params:
    """``k_over_m``: the interpolation coefficient k in units of the number of clients m.

    ``echo_clip``: largest norm of the mean echoed innovation, or None. The authors' released code has 0.5 and
    Algorithm 1 has no such clip.
    """

    k_over_m: Annotated[float, Ge(0)] = 0.0
    echo_clip: Annotated[float | None, Gt(0)] = None


def init(params: Params, server: Tensor, clients: int) -> State:
    """Every client holds the initial model and was last active in round -1."""
    last_active = torch.full((clients,), -1, dtype=torch.int64, device=server.device)
    return {"server": server, "local": server.repeat(clients, 1), "last_active": last_active}


def start(params: Params, state: State, cohort: Cohort) -> Tensor:
    """Clients train from their own models."""
    return state["local"][cohort.clients]


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Echo, average with k copies of the server's model, and multicast to the active clients."""
    active = cohort.clients
    if not len(active):
        return
    server, k = state["server"], params.k_over_m * cohort.total
    echo = (cohort.t - state["last_active"][active]).to(delta.dtype)
    base = (state["local"][active].sum(0) + k * server) / (len(active) + k)
    innovation = (echo[:, None] * delta).sum(0) / (len(active) + k)
    if params.echo_clip is not None:
        innovation *= (params.echo_clip / innovation.norm()).clamp(max=1.0)
    server.copy_(base + cohort.global_lr * innovation)
    state["local"][active] = server
    state["last_active"][active] = cohort.t


def models(params: Params, state: State) -> dict[str, Tensor]:
    """The server's model, and the mean of all clients' models, which the theory speaks of."""
    return {"server": state["server"], "client_mean": state["local"].mean(0)}
