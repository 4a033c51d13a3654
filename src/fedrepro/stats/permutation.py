"""Permutation test of two unpaired samples, one-sided, exact while there are few assignments.

Under the null hypothesis all values come from one distribution, so that every assignment of them to two
samples of the same sizes is equally likely (Fisher, The Design of Experiments, 1935, Section 21).
"""

from itertools import count
from math import comb

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fedrepro.core.rng import stream
from fedrepro.stats.sign_flip import LEVEL

EXACT_UP_TO = 100_000  # assignments; above, as many random ones


def runs_needed(claims: int) -> int:
    """The smallest n of each sample with which one of so many claims can be decided under Holm."""
    return next(n for n in count(1) if comb(2 * n, n) >= claims / LEVEL)


def larger(values: ArrayLike, others: ArrayLike) -> float:
    """The p value against the null that the first sample's mean is not above the second's.

    Parameters
    ----------
    values, others : array_like, shapes (n,) and (k,)
        Finite numbers, at least one of each.

    Raises
    ------
    ValueError
        If a sample is empty or holds what is not finite.
    """
    one, two = (np.asarray(sample, dtype=np.float64) for sample in (values, others))
    if not len(one) or not len(two) or not np.isfinite(np.concatenate([one, two])).all():
        raise ValueError(f"two samples of finite numbers are needed, not {values!r} and {others!r}")
    pooled = np.concatenate([one, two])
    if len(one) == 1:  # which SciPy refuses
        return float((pooled >= one[0]).mean())
    if len(two) == 1:
        return float((pooled <= two[0]).mean())
    exact = comb(len(one) + len(two), len(one)) <= EXACT_UP_TO
    found = stats.permutation_test(
        (one, two),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        permutation_type="independent",
        alternative="greater",
        n_resamples=np.inf if exact else EXACT_UP_TO,
        vectorized=True,
        rng=None if exact else stream(0, "bootstrap", "permutation"),
    )
    return float(found.pvalue)
