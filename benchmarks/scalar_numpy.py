"""FedAvg with partial participation in plain NumPy, vectorised over trials.

A second reading of the algorithm: it shares no code with the compiled kernel beyond the description of the
work, and draws other random numbers, so that the two agree in law only.
"""

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.problem import Problem
from fedrepro.core.scalar import Simulation

Floats = NDArray[np.float64]


def simulate(problem: Problem, work: Simulation) -> Floats:
    """The server's x at the recorded rounds, shape (trials, records).

    Parameters
    ----------
    problem : Problem
        Gives gradients and oracle variances.
    work : Simulation
        What to run; ``key`` seeds NumPy's default generator.
    """
    rng = np.random.default_rng(work.key)
    n, shape = len(work.offsets), (work.trials, work.sampled)
    server = np.full(work.trials, work.start)
    out = np.empty((work.trials, len(work.records)))
    out[:, work.records == 0] = work.start
    for t, alpha in enumerate(work.step_sizes):
        clients = np.argsort(rng.random((work.trials, n)), axis=1)[:, : work.sampled]
        offset = work.offsets[clients]
        x = np.broadcast_to(server[:, None], shape)
        for _ in range(work.local_steps):
            sign = 2.0 * rng.integers(0, 2, shape, dtype=np.int8) - 1.0
            deviation = np.sqrt(problem.plugin.variances(x, offset))
            x = x - alpha * (problem.plugin.gradients(x, offset) + sign * deviation)
        server = x.mean(axis=1)
        out[:, work.records == t + 1] = server[:, None]
    return out
