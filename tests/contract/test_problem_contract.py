"""What every scalar problem must keep."""

import dataclasses
import math

import numpy as np
import pytest

from fedrepro.core import registry
from fedrepro.core.job import bind
from fedrepro.core.problem import Problem
from fedrepro.core.scalar import Simulation, simulate
from fedrepro.core.spec import Choice
from fedrepro.provenance.header import Header

PROBLEMS = registry.names("problem")


@pytest.mark.parametrize("name", PROBLEMS)
class TestProblem:
    def test_header_says_what_the_problem_is(self, name: str) -> None:
        """The plan reads the number of clients and the constants without importing the file."""
        found, problem = Header("problem", name), Problem(*bind("problem", Choice(name)))
        assert found.constant("CLIENTS") == problem.clients == len(problem.offsets)
        assert all(isinstance(found.constant(constant), float) for constant in ("L", "C", "D"))
        assert len(found.constant("CITATION")) > 20
        assert dataclasses.asdict(found.params()()) == dataclasses.asdict(problem.params)

    def test_minimum_is_a_minimum(self, name: str) -> None:
        problem = Problem(*bind("problem", Choice(name)))
        around = problem.minimiser + np.linspace(-5, 5, 1001)
        assert problem.value(around).min() >= problem.minimum - 1e-12
        assert abs(problem.gradient(problem.minimiser)) < 1e-9

    def test_clients_have_infimum_zero_and_a_convex_objective(self, name: str) -> None:
        problem = Problem(*bind("problem", Choice(name)))
        x = np.linspace(-1000, 1000, 4001)[:, None]
        values = problem.plugin.values(x, problem.offsets)
        assert values.min() >= 0 and (values.min(0) < 0.04).all(), "grid step 1/2: at most 1/32"
        assert (np.diff(problem.plugin.gradients(x, problem.offsets), axis=0) >= -1e-12).all()

    def test_step_has_the_gradient_and_the_deviation(self, name: str) -> None:
        problem = Problem(*bind("problem", Choice(name)))
        for x in (-30.0, -0.7, 0.0, 0.4, 3.0, 55.0):
            for offset in problem.offsets:
                gradient, deviation = problem.plugin.step(x, offset)
                assert gradient == pytest.approx(float(problem.plugin.gradients(x, offset)), abs=1e-12)
                variance = float(problem.plugin.variances(np.asarray(x), offset))
                assert deviation == pytest.approx(math.sqrt(variance), abs=1e-7)

    def test_simulation_is_deterministic_and_starts_at_the_start(self, name: str) -> None:
        problem = Problem(*bind("problem", Choice(name)))
        work = Simulation(
            problem.start, problem.offsets, 2, 3, np.full(5, 1e-2), np.array([0, 2, 5]), trials=4, key=9
        )
        first, again = (simulate(problem.plugin.step, name, work) for _ in range(2))
        assert first.shape == (4, 3) and (first[:, 0] == problem.start).all()
        np.testing.assert_array_equal(first, again)
        assert len(np.unique(first[:, 2])) == 4, "trials are different"
