"""The availability trace of a partition, shared by all algorithms of a seed."""

import numpy as np
import pyarrow as pa

from fedrepro.core import legacy
from fedrepro.core.availability import participation, probabilities
from fedrepro.core.job import Artifact, Context, Inputs, Result, bind
from fedrepro.core.partition import base_probabilities, read_class_counts
from fedrepro.core.spec import PartitionSpec, TraceSpec
from fedrepro.core.tables import TRACE, encode


def run(spec: TraceSpec, inputs: Inputs, context: Context) -> Result:
    """One row per client and round: the probability p_i^t and whether the client is available."""
    counts = read_class_counts(inputs["partition"], spec.dataset, spec.partition.clients)
    base = base_probabilities(counts, PartitionSpec(spec.dataset, spec.seed, spec.partition))
    dynamics, params = bind("dynamics", spec.dynamics)
    probability = probabilities(dynamics, params, base, spec.rounds)
    if spec.partition.streams == "legacy":
        active = legacy.draw(probability, spec.seed, spec.partition, counts.shape[1])
    else:
        active = participation(dynamics, params, probability, spec.seed, spec.dataset)
    rounds, clients = probability.shape
    columns = {
        "client": np.repeat(np.arange(clients), rounds),
        "round": np.tile(np.arange(rounds), clients),
        "probability": probability.T.ravel(),
        "active": active.T.ravel(),
    }
    table = pa.table(columns).cast(TRACE)
    return Result({"trace": Artifact(encode(table), len(table))})
