"""Sign-flip tests of paired differences, one-sided, exact up to twenty pairs.

Under the null hypothesis the differences are symmetric about a value of at most zero. Then every assignment
of signs is equally likely, and the p value is the share of assignments whose mean is at least the one
observed, so that n pairs can give no p below 2^-n (Fisher, The Design of Experiments, 1935, Section 21).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrepro.core.rng import stream

EXACT_UP_TO = 20  # pairs
RANDOM_FLIPS = 100_000
BATCH = 2_000
LEVEL = 0.05

Floats = NDArray[np.float64]


def sign_flip(differences: ArrayLike) -> float:
    """The p value against the null that the mean difference is at most zero: `both_sides`, the first."""
    return both_sides(differences)[0]


def both_sides(differences: ArrayLike) -> tuple[float, float]:
    """The p values of the claim that the mean difference is above zero, and of the claim that it is below.

    Parameters
    ----------
    differences : array_like, shape (n,)
        Paired differences in the claimed direction.

    Returns
    -------
    tuple of float
        Exact for n <= 20; else from 100,000 random flips, which are the same in every run.

    Raises
    ------
    ValueError
        If there is no difference, or one is not finite.
    """
    values = _checked(differences)
    if not values.any():
        return 1.0, 1.0  # every flip gives the observed mean
    if len(values) == 1:  # which SciPy refuses
        return (0.5, 1.0) if values[0] > 0 else (1.0, 0.5)
    exact = len(values) <= EXACT_UP_TO
    found = stats.permutation_test(
        (values,),
        lambda flipped, axis: flipped.mean(axis),
        permutation_type="samples",
        alternative="greater",
        n_resamples=np.inf if exact else RANDOM_FLIPS,
        batch=BATCH,
        vectorized=True,
        rng=None if exact else stream(0, "bootstrap", "sign_flip"),
    )
    null, close = found.null_distribution, 1e-12 * float(np.abs(values).mean())
    below = int((null <= found.statistic + close).sum())
    observed = 0 if exact else 1  # random flips count the observed assignment as one more
    return float(found.pvalue), (below + observed) / (len(null) + observed)


def not_worse(differences: ArrayLike, margin: float) -> float:
    """The p value against the null that the mean difference is at most ``-margin``."""
    return sign_flip(_checked(differences) + margin)


def equivalent(differences: ArrayLike, margin: float) -> float:
    """The p value against the null that the mean difference is outside ``+- margin``: two one-sided tests."""
    values = _checked(differences)
    return max(sign_flip(values + margin), sign_flip(margin - values))


def pairs_needed(claims: int) -> int:
    """The smallest n with which one of so many claims can be decided under Holm: 2^-n <= 0.05 / claims."""
    return math.ceil(math.log2(claims / LEVEL))


def _checked(differences: ArrayLike) -> Floats:
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"paired differences must be a row of finite numbers, not {differences!r}")
    return values
