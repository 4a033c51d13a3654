"""Runs whose numbers stop being finite end early, as a result of their own kind."""

import math

import pytest
import torch
from torch import Tensor

from fedrepro.core.algorithm import Algorithm, Cohort, State
from fedrepro.core.data import Split
from fedrepro.core.job import bind
from fedrepro.core.local import LocalSteps, local_phase
from fedrepro.core.model import Model
from fedrepro.core.spec import Choice, Evaluation
from tests.helpers import run_engine, spec_of, synthetic_task, trace_of

SPEC = spec_of(rounds=6, evaluation=Evaluation(test_every=1, train_every=1, final_rounds=0, final_every=1))
ALGORITHMS = ["fedavg_active", "fedavg_all", "fedswe"]


class Poison:
    """A local phase that returns a bad value in one round."""

    def __init__(self, at: int, value: float) -> None:
        self.at, self.value, self.calls = at, value, 0

    def __call__(self, model: Model, train: Split, work: LocalSteps) -> Tensor:
        trained = local_phase(model, train, work)
        if self.calls == self.at:
            trained[0, 0] = self.value
        self.calls += 1
        return trained


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_bad_weight_ends_the_run_with_the_rows_so_far(algorithm: str, value: float) -> None:
    """Bad in round t = 2, so three rounds are completed and the rows of the first two are clean."""
    spec = spec_of(algorithm=Choice(algorithm), rounds=6, evaluation=SPEC.evaluation)
    task = synthetic_task(spec)
    poison = Poison(2, value)
    outcome = run_engine(spec, task, poison)
    assert outcome.status == "diverged"
    assert poison.calls == 3
    rows = outcome.metrics.to_pylist()
    assert sorted({row["round"] for row in rows}) == [0, 1, 2, 3]
    clean = run_engine(spec, task).metrics.to_pylist()
    before = [row for row in rows if row["round"] < 3]
    assert before == [row for row in clean if row["round"] < 3]


def test_a_huge_step_size_diverges() -> None:
    """Squared-weight growth of a two-layer network overflows float32 within a few rounds."""
    spec = spec_of(model=Choice("mlp", {"hidden": (8,)}), local_lr=1e20, rounds=6, lr_schedule="constant")
    outcome = run_engine(spec, synthetic_task(spec))
    assert outcome.status == "diverged"
    assert 0 < len(outcome.metrics) < len(run_engine(spec_of(rounds=6), synthetic_task(SPEC)).metrics)


def test_weights_are_watched_between_evaluations() -> None:
    """Nothing is evaluated between rounds 0 and 6, yet the run ends at the bad round."""
    rare = Evaluation(test_every=100, train_every=100, final_rounds=0, final_every=1)
    spec = spec_of(rounds=6, evaluation=rare)
    poison = Poison(1, math.nan)
    outcome = run_engine(spec, synthetic_task(spec), poison)
    assert outcome.status == "diverged"
    assert poison.calls == 2
    assert {row["round"] for row in outcome.metrics.to_pylist()} == {0}


class TwoModels(Algorithm):
    """Evaluates a model that is lost beside the server's, which is fine."""

    def __init__(self, lost_first: bool) -> None:
        super().__init__(*bind("algorithm", Choice("fedavg_active")))
        self.lost_first = lost_first

    def models(self, state: State) -> dict[str, Tensor]:
        lost = {"lost": torch.full_like(state["server"], math.nan)}
        good = {"server": state["server"]}
        return lost | good if self.lost_first else good | lost


@pytest.mark.parametrize("lost_first", [True, False])
def test_every_evaluated_model_counts(lost_first: bool) -> None:
    """A loss that is not finite must not hide behind a later row of the same round that is."""
    outcome = run_engine(SPEC, synthetic_task(SPEC), algorithm=TwoModels(lost_first))
    assert outcome.status == "diverged"


def test_a_healthy_run_is_ok_and_complete() -> None:
    outcome = run_engine(SPEC, synthetic_task(SPEC))
    assert outcome.status == "ok"
    assert len(outcome.metrics) == 2 * 7


def test_the_observer_sees_every_round_once() -> None:
    seen: list[tuple[int, int]] = []
    run_engine(SPEC, synthetic_task(SPEC), observe=lambda p: seen.append((p.completed, p.rounds)))
    assert seen == [(t, 6) for t in range(7)]


def test_the_cohort_an_algorithm_sees() -> None:
    """Round, clients in ascending order, probabilities, m, and both step sizes."""
    seen: list[Cohort] = []

    class Listener(Algorithm):
        def round(self, state: State, cohort: Cohort, delta: Tensor) -> None:
            seen.append(cohort)

    spec = spec_of(rounds=3, global_lr=2.0, local_lr=0.4)
    task = synthetic_task(spec, trace_of([3, 1], [], [0, 1, 2, 3]))
    run_engine(spec, task, algorithm=Listener(*bind("algorithm", spec.algorithm)))
    assert [cohort.clients.tolist() for cohort in seen] == [[1, 3], [], [0, 1, 2, 3]]
    assert [cohort.t for cohort in seen] == [0, 1, 2]
    assert [len(cohort.probability) for cohort in seen] == [2, 0, 4]
    assert {(cohort.total, cohort.global_lr) for cohort in seen} == {(4, 2.0)}
    assert seen[1].local_lr == pytest.approx(0.4 / math.sqrt(1.1), rel=1e-15)
