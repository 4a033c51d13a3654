"""Images of each class at each client of a partition (FedSWE paper, Fig. 14)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fedrepro.core.job import Inputs
from fedrepro.core.partition import read_class_counts
from fedrepro.core.spec import AnalysisSpec

NEEDS = ("dataset", "partition")
SCHEMA = pa.schema({"client": pa.int32(), "label": pa.int32(), "images": pa.int64()})


@dataclass(frozen=True)
class Params:
    """No parameters."""


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per client and class."""
    assert spec.dataset and spec.partition
    counts = read_class_counts(inputs["partition"], spec.dataset, spec.partition.clients)
    client, label = np.indices(counts.shape)
    return pa.table({"client": client.ravel(), "label": label.ravel(), "images": counts.ravel()})
