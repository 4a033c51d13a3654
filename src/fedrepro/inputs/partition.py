"""The partition of a data set's training images over clients, shared by all algorithms of a seed."""

import numpy as np
import pyarrow as pa

from fedrepro.core import registry
from fedrepro.core.job import Artifact, Context, Inputs, Result
from fedrepro.core.partition import assign
from fedrepro.core.prepared import open_split
from fedrepro.core.spec import PartitionSpec
from fedrepro.core.tables import PARTITION, encode


def run(spec: PartitionSpec, inputs: Inputs, context: Context) -> Result:
    """One row per training image, in data-set order: its label and its client."""
    labels = np.asarray(open_split(inputs["train"])["label"])
    client = assign(labels, registry.load("dataset", spec.dataset).CLASSES, spec)
    columns = {"sample": np.arange(len(labels)), "label": labels, "client": client}
    table = pa.table(columns).cast(PARTITION)
    return Result({"partition": Artifact(encode(table), len(table))})
