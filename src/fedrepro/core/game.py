"""Games in which clients choose how many images to train on (IncentFedAvg paper, Sections 2 and 4).

Client i chooses ``N_i`` in ``[N_min, N_max_i]`` and minimises its loss ``l_i = cost - payoff``. With the
marginals ``F_i = d l_i / d N_i``, an equilibrium of a monotone game solves the variational inequality
``F(N)^T (N' - N) >= 0`` for all N' in the box.

A plugin is a module with

* ``AFFINE``: whether F is affine, so that its Jacobian at one point says all of its monotonicity,
* ``Params``: a frozen dataclass; a tuple in it has one entry a client,
* ``coefficients(params, clients, seed)``: what is drawn or derived once, handed to all that follows,
* ``losses(c, n)``, ``marginals(c, n)``: l_i and F_i at profiles (..., m), of the same shape,
* ``jacobian(c, n)``: dF_i / dN_j at one profile (m,), shape (m, m),

and, where there is one,

* ``equilibria(c, lower, upper)``: corners (low, high) of the box of all equilibria, in closed form,
* ``welfare(c, n)``, ``welfare_gradient(c, n)``: the welfare loss h that selects among equilibria.
"""

from functools import cached_property
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.spec import Participation
from fedrepro.errors import FedreproError

Floats = NDArray[np.float64]
Guarantee = Literal["strongly", "merely", "none"]
FLAT = 1e-9  # eigenvalues this small beside the Jacobian's norm count as zero
ALTERNATIVES = 2001  # of a client's own choices among which its best response is sought


class Game:
    """A game plugin bound to its parameters, its bounds and a seed.

    Parameters
    ----------
    plugin : module
        See the module's text.
    params : object
        The plugin's ``Params``.
    chosen : Participation
        For the bounds.
    seed : int
        Of what the game draws.
    """

    def __init__(self, plugin: ModuleType, params: Any, chosen: Participation, seed: int):
        self._plugin, self.name = plugin, plugin.__name__.rpartition(".")[2]
        self.upper: Floats = np.array(chosen.upper, dtype=np.float64)
        self.lower: Floats = np.full_like(self.upper, chosen.lower)
        self.coefficients: Any = plugin.coefficients(params, len(self.upper), seed)

    def losses(self, n: Floats) -> Floats:
        """l_i at profiles (..., m)."""
        return self._plugin.losses(self.coefficients, n)

    def marginals(self, n: Floats) -> Floats:
        """F_i at profiles (..., m)."""
        return self._plugin.marginals(self.coefficients, n)

    def project(self, n: Floats) -> Floats:
        """The nearest profiles within the bounds."""
        return np.minimum(np.maximum(n, self.lower), self.upper)  # much faster than np.clip

    @cached_property
    def jacobian(self) -> Floats:
        """dF_i / dN_j in the middle of the box, which for an affine game is everywhere; shape (m, m)."""
        return self._plugin.jacobian(self.coefficients, (self.lower + self.upper) / 2)

    @property
    def lipschitz(self) -> float:
        """L_F, the spectral norm of the Jacobian."""
        return float(np.linalg.norm(self.jacobian, 2))

    @property
    def modulus(self) -> float:
        """mu_F: the smallest eigenvalue of the Jacobian's symmetric part; negative: not monotone."""
        return float(np.linalg.eigvalsh((self.jacobian + self.jacobian.T) / 2)[0])

    @property
    def guarantee(self) -> Guarantee:
        """What the paper's analysis covers: a ``strongly`` or a ``merely`` monotone game, or ``none``.

        For a game that is not affine single points can refute monotonicity but not show it: ``none``.
        """
        if not self._plugin.AFFINE or self.modulus < -FLAT * self.lipschitz:
            return "none"
        return "strongly" if self.modulus > FLAT * self.lipschitz else "merely"

    def require(self, what: str, *allowed: Guarantee) -> None:
        """Refuse to apply a statement to a game that it does not cover."""
        if self.guarantee not in allowed:
            raise FedreproError(
                f"{what} holds for {' or '.join(allowed)} monotone games, but game {self.name} has the "
                f"guarantee {self.guarantee!r} with these parameters; choose another game"
            )

    @property
    def equilibria(self) -> tuple[Floats, Floats] | None:
        """Corners (low, high) of the box of all equilibria, where the plugin knows it."""
        if not hasattr(self._plugin, "equilibria"):
            return None
        return self._plugin.equilibria(self.coefficients, self.lower, self.upper)

    def distance(self, n: Floats) -> Floats:
        """Distance of profiles (..., m) from the set of all equilibria, shape (...)."""
        if self.equilibria is None:
            raise FedreproError(f"game {self.name} has no known set of equilibria to measure distances from")
        return np.linalg.norm(n - np.clip(n, *self.equilibria), axis=-1)

    def welfare(self, n: Floats) -> Floats:
        """The welfare loss h at profiles (..., m), shape (...)."""
        return self._plugin.welfare(self.coefficients, n)

    def welfare_gradient(self, n: Floats) -> Floats:
        """Its gradient, shape (..., m)."""
        if not hasattr(self._plugin, "welfare_gradient"):
            raise FedreproError(
                f"key 'participation.welfare_weight': game {self.name} has no welfare loss to weigh; "
                "set it to 0"
            )
        return self._plugin.welfare_gradient(self.coefficients, n)

    def regret(self, n: Floats) -> Floats:
        """What each client could still gain alone at a profile (m,), shape (m,); all zero: an equilibrium.

        A client's choices are searched on a grid of `ALTERNATIVES` with both bounds, since its loss need
        not be convex; choices whose loss is not defined are none.
        """
        own = np.linspace(self.lower, self.upper, ALTERNATIVES)  # (alternatives, m)
        profiles = np.repeat(n[None, None], len(n), axis=1).repeat(ALTERNATIVES, axis=0)
        client = np.arange(len(n))
        profiles[:, client, client] = own
        losses = self.losses(profiles)[:, client, client]
        best = np.min(losses, axis=0, where=np.isfinite(losses), initial=np.inf)
        return np.maximum(self.losses(n) - best, 0.0)


def trajectory(game: Game, chosen: Participation, rounds: int, start: Floats | None = None) -> Floats:
    """N_r of rounds r = 0, ..., R under the projected update; shape (R + 1, ..., m).

    ``N <- project(N - gamma_r (F(N) + lambda_r grad h(N)))`` with ``gamma_r = step_size (r + 1)^-a`` and
    ``lambda_r = welfare_weight (r + 1)^-b`` (Algorithm 1, line 10, and Lemma 4.4).

    Parameters
    ----------
    game : Game
        The game.
    chosen : Participation
        Step sizes and weights, and N_0.
    rounds : int
        R.
    start : array, shape (..., m), optional
        Other values for N_0; several are run at once.
    """
    if start is None:
        start = game.lower + chosen.start * (game.upper - game.lower)
    steps, weights = schedules(chosen, rounds)
    out = np.empty((rounds + 1, *start.shape))
    out[0] = start
    for r in range(rounds):
        direction = game.marginals(out[r])
        if weights[r] > 0:
            direction = direction + weights[r] * game.welfare_gradient(out[r])
        out[r + 1] = game.project(out[r] - steps[r] * direction)
    return out


def schedules(chosen: Participation, rounds: int) -> tuple[Floats, Floats]:
    """gamma_r and lambda_r of rounds r = 0, ..., R - 1, shape (R,) each."""
    r = np.arange(1, rounds + 1, dtype=np.float64)
    return chosen.step_size * r**-chosen.step_decay, chosen.welfare_weight * r**-chosen.welfare_decay


def welfare_average(path: Floats, chosen: Participation) -> Floats:
    """The average of Lemma 4.4 of the rounds before R, for R = 1, ..., T; shape (T, ..., m).

    ``sum_{r < R} gamma_r lambda_r N_r / sum_{r < R} gamma_r lambda_r``, of a trajectory (T + 1, ..., m).
    """
    weight = np.multiply(*schedules(chosen, len(path) - 1)).reshape(-1, *[1] * (path.ndim - 1))
    return np.cumsum(weight * path[:-1], axis=0) / np.cumsum(weight, axis=0)


def extragradient(game: Game, start: Floats, step: float, iterations: int) -> Floats:
    """A solution of a monotone game's variational inequality, by Korpelevich's method; shape (m,).

    Each iteration steps with the marginals of a trial point; it converges for ``step < 1 / L_F``.
    """
    n = start
    for _ in range(iterations):
        trial = game.project(n - step * game.marginals(n))
        n = game.project(n - step * game.marginals(trial))
    return n


def dual_gap(game: Game, n: Floats, sweeps: int = 200) -> float:
    """``sup_{N'} F(N')^T (N - N')`` over the box: zero exactly at the equilibria of a monotone game.

    For affine F = J N' + b the objective is concave and quadratic; it is maximised one coordinate after the
    other, which a diagonal J needs only once.
    """
    game.require("the dual gap", "strongly", "merely")
    jacobian = game.jacobian
    constant = game.marginals(np.zeros_like(n))
    best = n.copy()
    for _ in range(sweeps):
        before = best.copy()
        for i in range(len(n)):
            best[i] = 0.0
            slope = jacobian[:, i] @ (n - best) - jacobian[i] @ best - constant[i]  # of the objective at 0
            if jacobian[i, i] > 0:
                best[i] = np.clip(slope / (2 * jacobian[i, i]), game.lower[i], game.upper[i])
            else:
                best[i] = game.upper[i] if slope > 0 else game.lower[i]
        if np.array_equal(best, before):
            break
    return max(float((jacobian @ best + constant) @ (n - best)), 0.0)


def contributions(game: Game, chosen: Participation, rounds: int) -> Floats:
    """N_r of a run that trains, shape (rounds + 1, m): as `trajectory`, and somebody trains in every round.

    Raises
    ------
    FedreproError
        If in some round nobody has images to train on, or all who trained end it without any, so that the
        weights of the average are not defined.
    """
    path = trajectory(game, chosen, rounds)
    counted = np.where(path[:-1] > 0, path[1:], 0).sum(axis=1)
    if (counted == 0).any():
        raise FedreproError(
            f"game {game.name}: all clients that train are at zero after round {int(np.argmin(counted))}, so "
            "nobody is left to average; raise participation.lower, or take fewer rounds or smaller steps"
        )
    return path
