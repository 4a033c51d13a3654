"""Theorem 1 of the partial-participation paper: two smooth clients whose dissimilarity is not bounded.

With ``r(x) = sqrt(1 + x^2)`` and ``U(r) = r sin(sqrt(r)) / 2`` the clients are ``f_1 = r + U(r)`` and
``f_2 = r - U(r)``. At ``x_k`` with ``r(x_k) = (2 k pi)^2`` their dissimilarity is
``(k pi)^2 / 4 (1 - (2 k pi)^-4)``, while ``f' < 1``.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge
from numpy.typing import NDArray

from fedrepro.core.job import Inputs
from fedrepro.core.spec import AnalysisSpec

NEEDS = ()
SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "x": pa.float64(),
        "dissimilarity": pa.float64(),  # (1/2) sum_i (f_i' - f')^2 at x_k
        "lower_bound": pa.float64(),  # the paper's (k pi)^2 / 8
        "closed_form": pa.float64(),  # (k pi)^2 / 4 (1 - (2 k pi)^-4)
        "gradient": pa.float64(),  # f'(x_k)
    }
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``largest``: the points x_1, ..., x_largest are evaluated."""

    largest: Annotated[int, Ge(1)] = 100


def client_gradients(x: Floats) -> tuple[Floats, Floats]:
    """f_1'(x) and f_2'(x), from the derivatives of r and U."""
    r = np.sqrt(1 + x**2)
    inner = np.sin(np.sqrt(r)) / 2 + np.sqrt(r) * np.cos(np.sqrt(r)) / 4  # U'(r)
    slope = x / r
    return slope * (1 + inner), slope * (1 - inner)


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per k."""
    k = np.arange(1, params.largest + 1)
    scale = (2 * k * np.pi) ** 4
    x = np.sqrt(scale - 1)
    first, second = client_gradients(x)
    mean = (first + second) / 2
    columns = {
        "k": k,
        "x": x,
        "dissimilarity": ((first - mean) ** 2 + (second - mean) ** 2) / 2,
        "lower_bound": (k * np.pi) ** 2 / 8,
        "closed_form": (k * np.pi) ** 2 / 4 * (1 - 1 / scale),
        "gradient": mean,
    }
    return pa.table(columns)
