"""Heterogeneity of a problem: sigma_f* and the optimised BGD sum (partial-participation paper, Table II)."""

from dataclasses import dataclass

import pyarrow as pa

from fedrepro.core.job import Inputs, bind
from fedrepro.core.problem import Problem
from fedrepro.core.spec import AnalysisSpec

NEEDS = ("problem",)
SCHEMA = pa.schema(
    {
        "minimiser": pa.float64(),
        "sigma_f_star": pa.float64(),
        "zeta_squared": pa.float64(),
        "psi_squared": pa.float64(),
        "bgd_sum": pa.float64(),
    }
)


@dataclass(frozen=True)
class Params:
    """No parameters."""


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row."""
    assert spec.problem
    problem = Problem(*bind("problem", spec.problem))
    bgd = problem.bgd_constants()
    row = {
        "minimiser": problem.minimiser,
        "sigma_f_star": problem.minimum,
        "zeta_squared": bgd.zeta_squared,
        "psi_squared": bgd.psi_squared,
        "bgd_sum": bgd.total,
    }
    return pa.Table.from_pylist([row], schema=SCHEMA)
