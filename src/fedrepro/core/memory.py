"""The server's memory of every client's latest update, and its mean: what MIFA and FedVARP share."""

from torch import Tensor

from fedrepro.core.algorithm import Cohort, State

REFRESH = 500  # rounds after which the running mean is computed anew, against rounding


def empty(server: Tensor, clients: int) -> State:
    """A memory (m, d) of zeros, its ``mean`` (d,), and the server's model (d,)."""
    memory = server.new_zeros(clients, len(server))
    return {"server": server, "memory": memory, "mean": server.new_zeros(len(server))}


def remember(state: State, cohort: Cohort, updates: Tensor) -> None:
    """Replace the memory of the cohort by ``updates`` (K, d) and follow with the mean over all clients."""
    memory, mean = state["memory"], state["mean"]
    mean.add_((updates - memory[cohort.clients]).sum(0), alpha=1 / cohort.total)
    memory[cohort.clients] = updates
    if (cohort.t + 1) % REFRESH == 0:
        mean.copy_(memory.mean(0))
