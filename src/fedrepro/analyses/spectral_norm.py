"""rho_k, the spectral norm of FedSWE's information mixing, against k (FedSWE paper, Fig. 4 and Lemma 11).

``rho_k = lambda_2(E[V^T V])`` with ``V = W^(0) ... W^(P-1)`` over one period, exact and from drawn windows.
The paper writes ``V^2``, which is not symmetric; its appendix D.6 reads it as ``V^T V``.
"""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from annotated_types import Ge

from fedrepro.core import mixing
from fedrepro.core.job import Inputs
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count

NEEDS = ()
SCHEMA = pa.schema(
    {
        "p_first": pa.float64(),  # of the first group of clients
        "p_last": pa.float64(),  # of the last one
        "period": pa.int32(),
        "k": pa.float64(),
        "exact": pa.float64(),
        "sampled": pa.float64(),
        "sampled_se": pa.float64(),
        "reversed": pa.float64(),  # lambda_2(E[V V^T]), exact
        "limit": pa.float64(),  # for k to infinity
        "log_gap_printed": pa.float64(),  # log10(1 - bound) of (20) as printed, or of (21) for P > 1
        "log_gap_repaired": pa.float64(),  # likewise, with (m + k)^4 in (20)
    }
)
LARGE = 1e9  # k at which the limit is taken


@dataclass(frozen=True)
class Params:
    """What is varied.

    ``probability``: for each case the probabilities of its groups of clients, which are available in turn,
    ``rounds_each`` rounds each; a single group with one round is P = 1. ``clients``: m. ``coefficients``: k.
    ``repetitions``: drawn windows, the same uniforms for all cases and k.
    """

    probability: tuple[tuple[float, ...], ...] = ((0.5,), (1.0,))
    rounds_each: Count = 1
    clients: Count = 10
    coefficients: tuple[float, ...] = (1.0, 10.0, 100.0)
    repetitions: Annotated[int, Ge(2)] = 1000


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row per case and k."""
    rows = []
    for case in params.probability:
        windows = mixing.group_windows(tuple(case), params.rounds_each, params.clients)
        period = len(windows)
        uniforms = stream(spec.seed, "trace", "").random((params.repetitions, *windows.shape))
        limit = mixing.second_eigenvalue(mixing.expected_square(windows, LARGE))
        delta = float(windows.mean(0).min())  # of Assumption 1, with P_delta the period
        for k in params.coefficients:
            sampled, error = mixing.sampled_norm(uniforms < windows, k)
            printed, repaired = (2, 4) if period == 1 else (4 * period + 2,) * 2
            row = {"p_first": case[0], "p_last": case[-1], "period": period, "k": k, "limit": limit}
            row |= {"sampled": sampled, "sampled_se": error}
            row["exact"] = mixing.second_eigenvalue(mixing.expected_square(windows, k))
            row["reversed"] = mixing.second_eigenvalue(mixing.expected_square(windows[::-1], k))
            row["log_gap_printed"] = mixing.log_gap(params.clients, k, delta, printed)
            row["log_gap_repaired"] = mixing.log_gap(params.clients, k, delta, repaired)
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)
