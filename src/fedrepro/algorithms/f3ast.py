"""F3AST: at most ``cap`` of the available clients train, those selected least often so far.

    S = the ``cap`` clients of A with the smallest rate r_i (all of A where it is smaller)
    r <- (1 - beta) r + beta 1_S ;   x <- x + eta_g (1/m) sum_{i in S} Delta_i / r_i

r starts at cap/m, so that the weights of a round sum to about one; without a cap, at the share of the first
round's available clients, at least 1/m. (Ribero et al., 2022, adapted: the code behind the FedSWE paper's
numbers is not public, and of the published variants this unbiased form alone agrees with its Table 7.)
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

CITATION = "Ribero et al., Federated learning under intermittent client availability (F3AST), IEEE JSTSP 2022"
MEMORY = "d"


@dataclass(frozen=True)
class Params:
    """``beta``: smoothing of the rates; ``cap``: clients a round, or None; ``initial_rate``: r_i(0)."""

    beta: Annotated[float, Gt(0), Le(1)] = 0.001
    cap: Annotated[int | None, Ge(1)] = 10
    initial_rate: Annotated[float | None, Gt(0), Le(1)] = None


def init(params: Params, server: Tensor, clients: int) -> State:
    """The rates; NaN until the first round where they depend on who is available in it."""
    start = params.initial_rate
    if start is None:
        start = min(params.cap / clients, 1.0) if params.cap is not None else float("nan")
    return {
        "server": server,
        "rate": torch.full((clients,), start, dtype=torch.float64, device=server.device),
    }


def select(params: Params, state: State, cohort: Cohort) -> Tensor:
    """Positions of the clients with the smallest rates, ties broken at random, in the cohort's order."""
    positions = torch.arange(len(cohort.clients), device=cohort.clients.device)
    if params.cap is None or len(positions) <= params.cap:
        return positions
    by_tiebreak = torch.argsort(cohort.tiebreak, stable=True)
    by_rate = torch.argsort(state["rate"][cohort.clients[by_tiebreak]], stable=True)
    return torch.sort(by_tiebreak[by_rate[: params.cap]]).values


def round(params: Params, state: State, cohort: Cohort, delta: Tensor) -> None:
    """Update the rates with this round's selection, then weight by their inverse."""
    rate = state["rate"]
    if rate.isnan().all():
        rate.fill_(max(len(cohort.clients), 1) / cohort.total)
    rate.mul_(1 - params.beta)
    rate[cohort.clients] += params.beta
    weight = (1 / rate[cohort.clients]).to(delta.dtype)
    state["server"].add_(weight @ delta, alpha=cohort.global_lr / cohort.total)
