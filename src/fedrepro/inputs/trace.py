"""The availability trace of a partition, shared by all algorithms of a seed."""

import numpy as np
import pyarrow as pa

from fedrepro.core import traces
from fedrepro.core.job import Artifact, Context, Inputs, Result
from fedrepro.core.spec import TraceSpec
from fedrepro.core.tables import TRACE, encode


def run(spec: TraceSpec, inputs: Inputs, context: Context) -> Result:
    """One row per client and round: the probability p_i^t and whether the client is available."""
    probability, active = traces.trace(inputs["partition"], spec)
    rounds, clients = probability.shape
    columns = {
        "client": np.repeat(np.arange(clients), rounds),
        "round": np.tile(np.arange(rounds), clients),
        "probability": probability.T.ravel(),
        "active": active.T.ravel(),
    }
    table = pa.table(columns).cast(TRACE)
    return Result({"trace": Artifact(encode(table), len(table))})
