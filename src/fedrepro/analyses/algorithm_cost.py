"""What an algorithm costs: local trainings of a trace, and how its memory grows with the clients."""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from fedrepro.core import quadratics
from fedrepro.core.algorithm import Algorithm
from fedrepro.core.job import Inputs, bind
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ("algorithm",)
SCHEMA = pa.schema(
    {
        "available": pa.int64(),  # pairs of a client and a round in which it is available
        "trained": pa.int64(),  # local trainings in these rounds
        "server_slope": pa.float64(),  # of log bytes of the server's state in log m
        "total_slope": pa.float64(),  # likewise, of the state of server and clients
    }
)
OF_CLIENTS = ("local", "last_active")  # parts of a state that each client keeps for itself
WEIGHTS = 10_000


@dataclass(frozen=True)
class Params:
    """``clients``: the two numbers m between which memory is compared; ``rounds`` of the trace."""

    clients: tuple[Count, Count] = (10, 100)
    rounds: Count = 200


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row."""
    assert spec.algorithm
    algorithm = Algorithm(*bind("algorithm", spec.algorithm))
    few, many = params.clients
    active = stream(spec.seed, "trace", "").random((params.rounds, few)) < 0.3
    state = algorithm.init(torch.zeros(3, dtype=torch.float64), few)
    cohorts = [algorithm.select(state, quadratics.cohort(t, row)) for t, row in enumerate(active)]
    ratio = math.log(many / few)
    row = {
        "available": int(np.count_nonzero(active)),
        "trained": sum(len(cohort.clients) for cohort in cohorts),
        "server_slope": math.log(_bytes(algorithm, many, OF_CLIENTS) / _bytes(algorithm, few, OF_CLIENTS))
        / ratio,
        "total_slope": math.log(_bytes(algorithm, many, ()) / _bytes(algorithm, few, ())) / ratio,
    }
    return pa.Table.from_pylist([row], schema=SCHEMA)


def _bytes(algorithm: Algorithm, clients: int, excluded: tuple[str, ...]) -> int:
    state = algorithm.init(torch.zeros(WEIGHTS), clients)
    return sum(v.nbytes for k, v in state.items() if isinstance(v, Tensor) and k not in excluded)
