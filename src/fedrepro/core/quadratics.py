"""Federated algorithms on quadratic objectives, whose local training has a closed form.

Client i has ``F_i(x) = a_i ||x - u_i||^2 / 2``, so that s gradient steps of size eta from x end at
``u_i + (1 - eta a_i)^s (x - u_i)``. (FedSWE paper, Examples 2 and 3, Proposition 17, with a_i = 1; a
virtual client of Section 6.2 has a_i = 0.)
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.core.algorithm import Algorithm, Cohort, State


def cohort(t: int, active: NDArray[np.bool_], global_lr: float = 1.0) -> Cohort:
    """The clients that ``active`` (m,) marks as available in round t, alike, for eta_g = ``global_lr``."""
    clients = torch.from_numpy(np.flatnonzero(active))
    ones = torch.ones(len(clients), dtype=torch.float64)
    return Cohort(t, clients, ones, ones, ones, len(active), 1.0, global_lr)


def run(
    algorithm: Algorithm,
    minima: Tensor,
    active: NDArray[np.bool_],
    steps: Tensor,
    start: Tensor,
    local_steps: int = 1,
    curvature: Tensor | None = None,
    noise: Tensor | None = None,
    global_lr: float = 1.0,
) -> Iterator[State]:
    """States after every round; they are changed in place by the next.

    Parameters
    ----------
    algorithm : Algorithm
        The plugin that is run.
    minima : Tensor, shape (m, d)
        Local minimisers u_i.
    active : bool array, shape (T, m)
        Who is available.
    steps : Tensor, shape (T, d)
        Local step size of each round; coordinates are independent and may differ.
    start : Tensor, shape (d,)
        Initial model.
    local_steps : int
        s.
    curvature : Tensor, shape (m,), optional
        a_i, by default 1.
    noise : Tensor, shape (T, m, d), optional
        What gradient noise adds to a client's trained weights, by default nothing.
    global_lr : float
        eta_g.
    """
    curvature = minima.new_ones(len(minima)) if curvature is None else curvature
    state = algorithm.init(start.clone(), len(minima))
    for t, (available, step) in enumerate(zip(active, steps, strict=True)):
        members = algorithm.select(state, cohort(t, available, global_lr))
        begin = algorithm.start(state, members)
        kept = (1 - step * curvature[members.clients, None]) ** local_steps
        delta = (1 - kept) * (minima[members.clients] - begin)
        algorithm.round(state, members, delta if noise is None else delta + noise[t, members.clients])
        yield state
