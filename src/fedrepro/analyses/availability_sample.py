"""The probability trajectory and sampled availability of clients with given base rates (Fig. 16)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Le

from fedrepro.core.availability import participation, probabilities
from fedrepro.core.job import Inputs, bind
from fedrepro.core.spec import AnalysisSpec

NEEDS = ("dynamics", "rounds")
SCHEMA = pa.schema(
    {
        "client": pa.int32(),
        "base": pa.float64(),
        "round": pa.int32(),
        "probability": pa.float64(),
        "active": pa.bool_(),
    }
)


@dataclass(frozen=True)
class Params:
    """``base``: the base probabilities p_i, one client each."""

    base: tuple[Annotated[float, Ge(0), Le(1)], ...] = (0.1, 0.5, 0.9)


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per client and round."""
    assert spec.dynamics and spec.rounds
    base = np.asarray(params.base)
    dynamics, own = bind("dynamics", spec.dynamics)
    probability = probabilities(dynamics, own, base, spec.rounds)
    active = participation(dynamics, own, probability, spec.seed, "")
    return pa.table(
        {
            "client": np.repeat(np.arange(len(base)), spec.rounds),
            "base": np.repeat(base, spec.rounds),
            "round": np.tile(np.arange(spec.rounds), len(base)),
            "probability": probability.T.ravel(),
            "active": active.T.ravel(),
        }
    )
