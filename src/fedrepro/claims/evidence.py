"""What a metric hands to a rule, and what a rule makes of it.

A metric turns collected tables or published numbers into parts, one for every cell that a claim speaks of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedrepro.errors import FedreproError

Floats = NDArray[np.float64]
Relation = Literal["=", "<=", ">=", "<", ">"]
EXACT = 1e-9  # relative error that float64 may add to an exact statement


@dataclass(frozen=True)
class Sample:
    """Paired differences (n,) in the claimed direction, one per seed, run or trial; NaN for none."""

    name: str
    values: Floats
    unit: str = ""


@dataclass(frozen=True)
class Statement:
    """``computed`` stands in ``relation`` to ``stated``, up to ``tolerance`` (absolute).

    ``error``: standard error of a computed value that was sampled, else 0. ``vacuous``: the statement holds
    whatever was computed, e.g. a bound above the range of the quantity. ``refuted_at``: the value from which
    on it is refuted, where a failure short of that decides nothing.
    """

    name: str
    stated: float
    computed: float
    relation: Relation = "="
    tolerance: float = 0.0
    error: float = 0.0
    vacuous: bool = False
    note: str = ""
    refuted_at: float | None = None

    @property
    def excess(self) -> float:
        """How far the computed value is on the wrong side, before any tolerance; at most 0 where it holds."""
        difference = self.computed - self.stated
        return {"=": abs(difference), "<=": difference, "<": difference}.get(self.relation, -difference)

    @property
    def slack(self) -> float:
        """What float64 and the tolerance allow; a strict relation has none."""
        if self.relation in ("<", ">"):
            return 0.0
        return self.tolerance + EXACT * max(abs(self.stated), abs(self.computed))


@dataclass(frozen=True)
class Measured:
    """A value of ours beside the published one.

    ``values``: ours, one per seed, shape (n,); or, where ``error`` is given, a single mean with its standard
    error. ``spread``: published standard deviation over ``published_n`` repetitions, NaN where not printed.
    ``decimals``: printed decimals. ``pool``: parts of one name share a spread, e.g. those of an algorithm.
    """

    name: str
    values: Floats
    published: float
    spread: float
    published_n: int
    decimals: int
    error: float | None = None
    n: int | None = None
    pool: str = ""


@dataclass(frozen=True)
class TwoSamples:
    """Values (n,) that are claimed to be the larger ones, and unpaired others (k,); NaN for none."""

    name: str
    values: Floats
    others: Floats
    unit: str = ""


@dataclass(frozen=True)
class Limits:
    """A statistic of n trials with an interval of its own, e.g. from a bootstrap."""

    name: str
    value: float
    low: float
    high: float
    n: int


Part = Sample | TwoSamples | Statement | Measured | Limits


@dataclass(frozen=True)
class Decided:
    """One part under a rule.

    ``agrees`` and ``disagrees`` are p values of the claim and of its mirror image; an exact part has 0 or 1.
    ``effect`` with ``low`` and ``high`` is in the part's unit: a mean difference with its 95 % interval, a
    computed value, or ours minus published.
    """

    name: str
    agrees: float
    disagrees: float
    effect: float
    low: float
    high: float
    n: int
    reference: float = 0.0
    relation: str = ""
    vacuous: bool = False
    note: str = ""


Metric = Callable[..., list[Any]]
METRICS: dict[str, Metric] = {}


def metric(function: Metric) -> Metric:
    """Register a metric under its own name. It takes `fedrepro.claims.data.Data` and its row's parameters."""
    if function.__name__ in METRICS:
        raise FedreproError(f"two metrics are called {function.__name__}; rename one")
    METRICS[function.__name__] = function
    return function
