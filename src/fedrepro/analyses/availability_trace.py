"""Probability and availability of a few clients of a partition, as in its trace (FedSWE paper, Fig. 1)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fedrepro.core.job import Inputs
from fedrepro.core.spec import AnalysisSpec, Count, TraceSpec
from fedrepro.core.traces import trace

NEEDS = ("dataset", "partition", "dynamics", "rounds")
SCHEMA = pa.schema(
    {"client": pa.int32(), "round": pa.int32(), "probability": pa.float64(), "active": pa.bool_()}
)


@dataclass(frozen=True)
class Params:
    """``clients``: how many are shown, evenly spaced from the 5 % to the 95 % quantile of availability."""

    clients: Count = 4


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per chosen client and round, clients in the order of their mean probability."""
    assert spec.dataset and spec.partition and spec.dynamics and spec.rounds
    traced = TraceSpec(spec.dataset, spec.seed, spec.partition, spec.dynamics, spec.rounds)
    probability, active = trace(inputs["partition"], traced)
    order = np.argsort(probability.mean(0), kind="stable")
    ranks = np.linspace(0.05, 0.95, params.clients) * (len(order) - 1)
    chosen = order[ranks.round().astype(int)]
    return pa.table(
        {
            "client": np.repeat(chosen, spec.rounds),
            "round": np.tile(np.arange(spec.rounds), len(chosen)),
            "probability": probability[:, chosen].T.ravel(),
            "active": active[:, chosen].T.ravel(),
        }
    )
