"""How FedSWE mixes information: the matrix W of equation (9), its spectral norm rho_k, and Lemma 11.

Regular clients come first, the k virtual ones, which are always active, behind them. Virtual clients are
alike: W maps every difference between them to 0 and every vector that is constant on them to such a vector.
So in an orthonormal basis one coordinate, ``1_V / sqrt(k)``, stands for all of them, and rho_k is an
eigenvalue of a matrix of order m + 1, for any real k >= 0.
"""

import math

import numpy as np
from numpy.typing import NDArray

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
