"""Metrics over the closed forms of participation games (IncentFedAvg paper, Section 5)."""

import itertools
from collections.abc import Sequence

import numpy as np

from fedrepro.claims.data import Data
from fedrepro.claims.evidence import Part, Statement, metric
from fedrepro.core.rng import stream

CAPS = np.array([15000.0, 8000.0, 18000.0, 6000.0, 13000.0])  # of the clients, Section 5.2
CLASSES = 10


def _softplus(total: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, total)


@metric
def welfare_of_sums(data: Data, sums: Sequence[float]) -> list[Part]:
    """The welfare loss h, which is minimised, is smaller at the larger sum."""
    small, large = _softplus(np.array(sums))
    text = f"h at a sum of {sums[1]:g}, against that at {sums[0]:g}"
    return [Statement(text, float(small), float(large), "<")]


@metric
def welfare_curvature(data: Data) -> list[Part]:
    """Second differences of h inside its domain are above 0, along a client and from one to another."""
    parts: list[Part] = []
    inside = CAPS / 1e4  # where the softplus is not yet linear in float64
    for name, direction in (
        ("along client 0", np.eye(5)[0]),
        ("from client 1 to client 0", np.eye(5)[0] - np.eye(5)[1]),
    ):
        ends = [float(_softplus(np.array((inside + sign * direction).sum()))) for sign in (-1, 0, 1)]
        parts.append(
            Statement(f"second difference {name}", 0.0, round(ends[0] - 2 * ends[1] + ends[2], 12), ">")
        )
    return parts


@metric
def exits(data: Data, draws: int) -> list[Part]:
    """Some client of random class shares q and costs theta from [0, |q|^2] has a positive marginal cost."""
    rng = stream(0, "partition", "claims")
    shares = rng.dirichlet(np.ones(CLASSES), draws)
    size = (shares**2).sum(1)
    marginal = rng.uniform(0, 1, draws) * size - size
    text = f"largest theta_i - |q_i|^2 of {draws} draws"
    return [Statement(text, 0.0, float(marginal.max()), ">")]


def _power_law(draws: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Alpha from (0, 2], beta from (0, 1], sums from 5 to all caps; (draws, 5) twice, (draws, 1)."""
    rng = stream(0, "partition", "claims", 1)
    alpha, beta = 2 - rng.uniform(0, 2, (draws, 5)), 1 - rng.uniform(0, 1, (draws, 5))
    total = np.exp(rng.uniform(np.log(5), np.log(CAPS.sum()), (draws, 1)))
    return alpha, beta, total


@metric
def climbing(data: Data, pair: Sequence[int], draws: int) -> list[Part]:
    """A draw exists in which both clients of a pair climb: each has half of all marginal payoffs."""
    alpha, beta, total = _power_law(draws)
    gain = alpha * beta * total ** (-beta - 1)
    climbs = 2 * gain > gain.sum(1, keepdims=True)
    both = int(climbs[:, list(pair)].all(1).sum())
    text = f"draws of {draws} in which clients {pair[0]} and {pair[1]} both climb"
    most = int(climbs.sum(1).max())
    return [Statement(text, 0.0, float(both), ">", note=f"at most {most} of five clients climbs in a draw")]


@metric
def power_law(data: Data, draws: int) -> list[Part]:
    """Losses of two clients sum to zero; payoffs are at least 0 and rise, less and less, with the sum."""
    alpha, beta, total = _power_law(draws)
    payoff = [1 - alpha * (factor * total) ** -beta for factor in (1.0, 1.01, 1.02)]
    losses = payoff[0][:, [1, 0]] - payoff[0][:, :2]
    rise = [b - a for a, b in itertools.pairwise(payoff)]
    return [
        Statement("two clients: largest |l_1 + l_2|", 0.0, float(abs(losses.sum(1)).max())),
        Statement("smallest payoff", 0.0, float(payoff[0].min()), ">="),
        Statement("smallest rise of a payoff when the sum grows by 1 %", 0.0, float(rise[0].min()), ">"),
        Statement("largest change of that rise", 0.0, float((rise[1] - rise[0]).max()), "<"),
    ]
