"""What every game must keep, one that is added tomorrow included."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedrepro.core import registry
from fedrepro.core.game import Game, trajectory
from fedrepro.core.job import bind
from fedrepro.core.spec import Choice, Participation
from fedrepro.provenance.header import Header

BOUNDS = Participation(upper=(15000, 8000, 18000, 6000, 13000), step_size=500.0)
pytestmark = pytest.mark.parametrize("name", registry.names("game"))


def game(name: str, seed: int = 3) -> Game:
    return Game(*bind("game", Choice(name)), BOUNDS, seed)


def profiles(found: Game, number: int = 7) -> Any:
    return found.lower + np.random.default_rng(5).random((number, 5)) * (found.upper - found.lower)


def tensors(value: Any) -> Any:
    """Coefficients with their arrays as tensors, for automatic differentiation."""
    if isinstance(value, tuple):
        return type(value)(*map(tensors, value))
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def test_header_says_what_the_game_is(name: str) -> None:
    found, module = Header("game", name), registry.load("game", name)
    assert found.constant("AFFINE") is module.AFFINE
    assert len(found.constant("CITATION")) > 20
    assert dataclasses.asdict(found.params()()) == dataclasses.asdict(module.Params())
    with pytest.raises(dataclasses.FrozenInstanceError):
        module.Params().anything = 1


def test_marginals_are_the_derivatives_of_the_losses(name: str) -> None:
    """By automatic differentiation of each client's loss by its own number of images."""
    found = game(name)
    module, coefficients = registry.load("game", name), tensors(found.coefficients)

    def losses(n: Tensor) -> Tensor:
        return module.losses(coefficients, n)

    for n in profiles(found):
        jacobian: Any = torch.autograd.functional.jacobian(losses, torch.from_numpy(n))
        np.testing.assert_allclose(found.marginals(n), torch.diagonal(jacobian), rtol=1e-10)


def test_jacobian_is_the_derivative_of_the_marginals(name: str) -> None:
    found = game(name)
    module = registry.load("game", name)
    for n in profiles(found):
        step = 1e-3 * n.max()
        columns = [
            (found.marginals(n + step * unit) - found.marginals(n - step * unit)) / (2 * step)
            for unit in np.eye(5)
        ]
        ours = module.jacobian(found.coefficients, n)
        np.testing.assert_allclose(ours, np.stack(columns, axis=1), rtol=1e-3, atol=1e-18)


def test_values_broadcast_over_profiles(name: str) -> None:
    found = game(name)
    n = profiles(found, 6).reshape(2, 3, 5)
    for function in (found.losses, found.marginals):
        values = function(n)
        assert values.shape == n.shape
        np.testing.assert_array_equal(values[1, 2], function(n[1, 2]))


def test_a_trajectory_is_a_function_of_the_seed_and_stays_within_its_bounds(name: str) -> None:
    found, again = game(name), game(name)
    path = trajectory(found, BOUNDS, 50)
    assert path.shape == (51, 5)
    np.testing.assert_array_equal(path, trajectory(again, BOUNDS, 50))
    np.testing.assert_array_equal(path[:20], trajectory(found, BOUNDS, 19))
    np.testing.assert_array_equal(path[0], found.lower + 0.5 * (found.upper - found.lower))
    assert (path >= found.lower).all() and (path <= found.upper).all()
    assert (path[-1] != path[0]).any()


def test_several_starts_at_once_are_as_one_by_one(name: str) -> None:
    found = game(name)
    starts = profiles(found, 3)
    together = trajectory(found, BOUNDS, 10, starts)
    for number, start in enumerate(starts):
        np.testing.assert_array_equal(together[:, number], trajectory(found, BOUNDS, 10, start))


def test_equilibria_leave_nothing_to_gain(name: str) -> None:
    """Corners of the closed form; a game without one has no monotonicity that could give it."""
    found = game(name)
    if found.equilibria is None:
        assert found.guarantee == "none"
        return
    for corner in found.equilibria:
        assert (corner >= found.lower).all() and (corner <= found.upper).all()
        assert found.regret(corner).max() == pytest.approx(0, abs=1e-6)
        assert found.regret(profiles(found)[0]).max() > 1
