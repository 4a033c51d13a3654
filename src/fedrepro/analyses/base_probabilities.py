"""Base availability p_i of every client of a partition (FedSWE paper, Fig. 15)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fedrepro.core.job import Inputs
from fedrepro.core.partition import base_probabilities, read_class_counts
from fedrepro.core.spec import AnalysisSpec, PartitionSpec

NEEDS = ("dataset", "partition")
SCHEMA = pa.schema({"client": pa.int32(), "probability": pa.float64()})


@dataclass(frozen=True)
class Params:
    """No parameters."""


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per client."""
    assert spec.dataset and spec.partition
    counts = read_class_counts(inputs["partition"], spec.dataset, spec.partition.clients)
    probability = base_probabilities(counts, PartitionSpec(spec.dataset, spec.seed, spec.partition))
    return pa.table({"client": np.arange(len(probability)), "probability": probability})
