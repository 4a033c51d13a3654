"""Checks of what the IncentFedAvg paper says of its three games: arithmetic, identities, impossibilities.

Which statements are checked follows from what the game guarantees. Where the paper draws parameters without
saying how, they are drawn here many times.
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedrepro.core import checks
from fedrepro.core.checks import Check
from fedrepro.core.game import Game, trajectory
from fedrepro.core.job import Inputs, bind
from fedrepro.core.rng import stream
from fedrepro.core.spec import AnalysisSpec, Count, Participation

NEEDS = ("game", "participation", "rounds")
SCHEMA = checks.SCHEMA

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """``draws`` of a game's parameters; ``samples`` of parameters and profiles at once; ``starts`` N_0."""

    draws: Count = 1000
    samples: Count = 100000
    starts: Count = 20


@dataclass(frozen=True)
class _Setting:
    """A game and what else its checks need."""

    plugin: ModuleType
    params: Any
    chosen: Participation
    seed: int
    rounds: int
    counts: Params

    def game(self, seed: int | None = None) -> Game:
        return Game(self.plugin, self.params, self.chosen, self.seed if seed is None else seed)

    def draws(self) -> list[tuple[Floats, Floats]]:
        """The equilibria of many draws of the game."""
        found = (self.game(seed).equilibria for seed in range(self.counts.draws))
        return [pair for pair in found if pair is not None]

    def rng(self) -> np.random.Generator:
        return stream(self.seed, "game", "", 2)

    def profiles(self, number: int) -> Floats:
        """Random profiles within the bounds."""
        game = self.game()
        return game.lower + self.rng().random((number, len(game.upper))) * (game.upper - game.lower)


def strongly_monotone(setting: _Setting) -> list[Check]:
    """Section 5.1, and what Section 5.3 says of it in comparison."""
    game = setting.game()
    assert game.equilibria is not None
    target = game.equilibria[0]
    start = game.lower + setting.chosen.start * (game.upper - game.lower)
    ends = trajectory(game, setting.chosen, setting.rounds, setting.profiles(setting.counts.starts))[-1]
    interior = [bool((game.lower < low).all() and (low < game.upper).all()) for low, _ in setting.draws()]
    head = "Strongly monotone discovery"
    text = f"{setting.counts.starts} starts: largest distance from N* after {setting.rounds} rounds, images"
    where = "Section 5.3 (l. 654)"
    return [
        Check(head, "Lemma 4.3", "smallest eigenvalue of F's Jacobian is lambda",
              setting.params.regularisation, game.modulus, "="),
        Check(head, where, text, 0.0, float(np.linalg.norm(ends - target, axis=1).max()), "<=", 1e-2),
        Check(head, where, f"{setting.counts.draws} draws: share with an interior equilibrium, our limit",
              0.5, float(np.mean(interior)), ">="),
        Check(head, "Section 5.1.1", "clients that end above N_0", 1.0, float((target > start).sum()), ">="),
        Check(head, "Section 5.1.1", "clients that end below N_0", 1.0, float((target < start).sum()), ">="),
    ]  # fmt: skip


def merely_monotone(setting: _Setting) -> list[Check]:
    """Section 5.2: what the welfare loss selects, and who leaves."""
    game, draws = setting.game(), setting.draws()
    upper = game.upper
    wanted = float(upper[0] + upper[2] + upper[4])
    middle = (game.lower + upper) / 2
    shift = np.zeros_like(middle)
    shift[:2] = 100.0, -100.0
    convexity = (game.welfare(middle + shift) + game.welfare(middle - shift)) / 2 - game.welfare(middle)
    several = sum(not np.array_equal(low, high) for low, high in draws)
    left = sum(bool((high < upper).any()) for _, high in draws)
    met = sum(abs(low.sum() - wanted) < 0.01 * wanted for low, _ in draws)
    head = "Merely monotone discovery with welfare"
    where, drawn = "Section 5.2 (l. 614-616)", f"of {len(draws)} draws, those"
    return [
        Check(head, where, "caps of clients 0, 2 and 4", 46000.0, wanted, "="),
        Check(head, "Lemma 4.4 (iii)", "a + b, below 1", 1.0,
              setting.chosen.step_decay + setting.chosen.welfare_decay),
        Check(head, where, "h rewards participation: h(N_max) - h(N_min)", 0.0,
              float(game.welfare(upper) - game.welfare(game.lower))),
        Check(head, where, "h is strictly convex: its mean at N +- (100, -100, 0, ...) exceeds h(N) by", 1e-9,
              float(convexity), ">=", 0.0),
        Check(head, where, f"{drawn} with several equilibria to select from", 1.0, float(several), ">="),
        Check(head, where, f"{drawn} in which some client leaves its cap", 1.0, float(left), ">="),
        Check(head, where, f"{drawn} whose equilibrium totals 46,000, within 1 %", 1.0, float(met), ">="),
    ]  # fmt: skip


def without_guarantee(setting: _Setting) -> list[Check]:
    """Section 5.3: the zero-sum game and its power-law payoffs."""
    rng, number = setting.rng(), setting.counts.samples
    game, profiles = setting.game(), setting.profiles(number)
    random = game.coefficients._replace(
        alpha=rng.uniform(0, 5, profiles.shape), beta=rng.uniform(0, 1, profiles.shape)
    )
    climbing = (setting.plugin.marginals(random, profiles) < 0).sum(axis=1).max()
    payoffs, losses = setting.plugin.payoffs(random, profiles), setting.plugin.losses(random, profiles)
    excess = losses.sum(axis=1) - (len(game.upper) - 2) * payoffs.sum(axis=1)
    pair = replace(setting.params, alpha=setting.params.alpha[:2], beta=setting.params.beta[:2])
    bounds = replace(setting.chosen, upper=setting.chosen.upper[:2])
    two = Game(setting.plugin, pair, bounds, setting.seed).losses(profiles[:, :2])
    jacobian = game.jacobian
    end = trajectory(game, setting.chosen, setting.rounds)[-1]
    head, where = "Zero-sum with power-law payoffs", "Section 5.3 (l. 622-640)"
    drawn = f"{number} draws of alpha to 5, beta, N"
    return [
        Check(head, where, "m = 2: largest size of l_1 + l_2", 0.0,
              float(np.abs(two.sum(axis=1)).max()), "="),
        Check(head, "own derivation", "m = 5: largest size of sum_i l_i - (m - 2) sum_i a_i", 0.0,
              float(np.abs(excess).max()), "="),
        Check(head, where, f"{drawn}: smallest payoff, said not to be negative", 0.0, float(payoffs.min()),
              ">="),
        Check(head, "Assumption 2.3 (ii)", "smallest eigenvalue of the symmetric Jacobian of F, mid-box", 0.0,
              game.modulus, ">=", 0.0),
        Check(head, "Assumption 2.3 (i)", "smallest second derivative of a loss by the own N_i, mid-box", 0.0,
              float(np.diag(jacobian).min()), ">=", 0.0),
        Check(head, "Section 5.3 (l. 650)", f"{drawn}: most clients that climb at once", 2.0, float(climbing),
              ">="),
        Check(head, "Section 2.1", f"after {setting.rounds} rounds: the most a client could gain alone",
              0.0, float(game.regret(end).max()), "<="),
    ]  # fmt: skip


BY_GUARANTEE = {"strongly": strongly_monotone, "merely": merely_monotone, "none": without_guarantee}


def compute(params: Params, spec: AnalysisSpec, inputs: Inputs) -> pa.Table:
    """One row a check."""
    assert spec.game and spec.participation and spec.rounds
    plugin, own = bind("game", spec.game)
    setting = _Setting(plugin, own, spec.participation, spec.seed, spec.rounds, params)
    return checks.table(BY_GUARANTEE[setting.game().guarantee](setting))
