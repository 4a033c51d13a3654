"""How FedSWE mixes information: the matrix W of equation (9), its spectral norm rho_k, and Lemma 11.

Regular clients come first, the k virtual ones, which are always active, behind them. Virtual clients are
alike: W maps every difference between them to 0 and every vector that is constant on them to such a vector.
So in an orthonormal basis one coordinate, ``1_V / sqrt(k)``, stands for all of them, and rho_k is an
eigenvalue of a matrix of order m + 1, for any real k >= 0.
"""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def mixing(active: Bools, virtual: Floats) -> Floats:
    """W of (9) for active sets (..., m); shape (..., m + v, m + v).

    ``virtual`` (v,): ones of length k for W itself, ``[sqrt(k)]`` for W in the small basis. With k = 0 and
    nobody active W is the identity.
    """
    everyone = np.concatenate(
        [active.astype(np.float64), np.broadcast_to(virtual, (*active.shape[:-1], len(virtual)))], axis=-1
    )
    size = (everyone**2).sum(-1)
    shared = everyone[..., :, None] * everyone[..., None, :] / np.where(size > 0, size, 1)[..., None, None]
    alone = np.concatenate([~active, np.zeros((*active.shape[:-1], len(virtual)), dtype=bool)], axis=-1)
    return shared + alone[..., :, None] * np.eye(everyone.shape[-1])


def active_sets(probability: Floats) -> tuple[Bools, Floats]:
    """Every set that independent clients of these probabilities (m,) can form: (S, m), with weights (S,)."""
    unsure = np.flatnonzero((probability > 0) & (probability < 1))
    active = np.tile(probability == 1, (2 ** len(unsure), 1))
    active[:, unsure] = (np.arange(len(active))[:, None] >> np.arange(len(unsure))) & 1
    return active, np.where(active, probability, 1 - probability).prod(1)


def expected_square(probability: Floats, k: float) -> Floats:
    """``E[V^T V]`` of ``V = W^(0) ... W^(P-1)``, exact, for probabilities (P, m); shape (m + 1, m + 1).

    Rounds are independent, so that ``V^T V`` grows outwards by one expectation a round,
    ``X <- E[W X W]`` from ``X = I``, over all active sets. For ``E[V V^T]`` reverse the rounds.
    """
    virtual = np.array([math.sqrt(k)])
    square = np.eye(probability.shape[1] + 1)
    for row in probability:
        active, weight = active_sets(row)
        w = mixing(active, virtual)
        square = np.tensordot(weight, w @ square @ w, axes=1)
    return square


def expected_square_of_groups(probability: Floats, size: int, k: float) -> Floats:
    """``E[V^T V]`` for equal groups of ``size`` clients that are alike, exact; shape (G size + 1,) * 2.

    As `expected_square`, with one probability a round and group, (P, G). Nothing changes when clients of a
    group are exchanged, so that one active set of every size a group stands for all of them, and its term
    is averaged over the entries that such exchanges carry into each other.
    """
    groups = probability.shape[1]
    member = np.repeat(np.arange(groups + 1), [size] * groups + [1])
    orbit = 2 * (member[:, None] * (groups + 1) + member) + np.eye(len(member), dtype=np.int64)
    sizes = np.maximum(np.bincount(orbit.ravel()), 1)
    square = np.eye(len(member))
    for row in probability:
        total = np.zeros_like(square)
        chances = [stats.binom.pmf(np.arange(size + 1), size, p) for p in row]
        for counts in itertools.product(*(np.flatnonzero(chance) for chance in chances)):
            active = np.concatenate([np.arange(size) < count for count in counts])
            weight = math.prod(chance[count] for chance, count in zip(chances, counts, strict=True))
            total += weight * _both_sides(square, active, math.sqrt(k))
        square = (np.bincount(orbit.ravel(), weights=total.ravel()) / sizes)[orbit]
    return square


def _both_sides(square: Floats, active: Bools, virtual: float) -> Floats:
    """``W X W`` of one active set (m,), by the rank of W's dense part: in the order of m^2 operations."""
    everyone, alone = np.append(active, virtual), np.append(~active, 0.0)
    size = float(everyone @ everyone) or 1.0
    left = np.outer(everyone, everyone @ square) / size + alone[:, None] * square
    return np.outer(left @ everyone, everyone) / size + left * alone


def sampled_products(active: Bools, k: float) -> Floats:
    """``W^(0) ... W^(P-1)`` of drawn windows, from active sets (n, P, m); shape (n, m + 1, m + 1)."""
    virtual = np.array([math.sqrt(k)])
    product = mixing(active[:, 0], virtual)
    for t in range(1, active.shape[1]):
        product = product @ mixing(active[:, t], virtual)
    return product


def sampled_norm(active: Bools, k: float) -> tuple[float, float]:
    """``rho_k`` of the mean of ``V^T V`` over drawn windows (n, P, m), and its standard error.

    The error is that of the mean of ``||V v||^2`` with v the eigenvector found (first-order perturbation).
    The second eigenvalue of a mean of draws is biased upwards: it is the largest over directions.
    """
    products = sampled_products(active, k)
    mean = np.einsum("nji,njk->ik", products, products) / len(products)
    values, vectors = np.linalg.eigh(mean)
    lengths = ((products @ vectors[:, -2]) ** 2).sum(1)
    return float(values[-2]), float(lengths.std(ddof=1) / math.sqrt(len(products)))


def second_eigenvalue(matrix: Floats) -> float:
    """Second largest eigenvalue of a symmetric matrix."""
    return float(np.linalg.eigvalsh(matrix)[-2])


def group_windows(probability: tuple[float, ...], rounds_each: int, clients: int) -> Floats:
    """Probabilities (P, m) of equal groups that are available in turn, ``rounds_each`` rounds each."""
    groups = len(probability)
    member = np.repeat(np.arange(groups), clients // groups)
    turn = np.repeat(np.arange(groups), rounds_each)
    return np.where(turn[:, None] == member, np.asarray(probability)[member], 0.0)


def log_gap(clients: int, k: float, delta: float, power: int) -> float:
    """``log10(1 - bound)`` for Lemma 11's ``1 - [m^2 delta + k^2 + 2mk]^2 delta^2 / (8 (m + k)^power)``.

    ``power``: 2 in (20) as printed, 4 in (20) as its proof gives it, 4 P + 2 in (21).
    """
    inner = clients**2 * delta + k**2 + 2 * clients * k
    return 2 * math.log10(inner * delta) - math.log10(8) - power * math.log10(clients + k)
