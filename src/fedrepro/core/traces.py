"""Who is available when, from a partition: what trace files hold."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrepro.core import legacy
from fedrepro.core.availability import participation, probabilities
from fedrepro.core.job import bind
from fedrepro.core.partition import base_probabilities, read_class_counts
from fedrepro.core.spec import PartitionSpec, TraceSpec


def trace(partition: Path, spec: TraceSpec) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Probability p_i^t and availability of every client of a partition file, both (T, m)."""
    counts = read_class_counts(partition, spec.dataset, spec.partition.clients)
    base = base_probabilities(counts, PartitionSpec(spec.dataset, spec.seed, spec.partition))
    dynamics, params = bind("dynamics", spec.dynamics)
    probability = probabilities(dynamics, params, base, spec.rounds)
    if spec.partition.streams == "legacy":
        active = legacy.draw(probability, spec.seed, spec.partition, counts.shape[1])
    else:
        active = participation(dynamics, params, probability, spec.seed, spec.dataset)
    return probability, active
