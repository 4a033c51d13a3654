"""What every algorithm must keep, one that is added tomorrow included."""

import copy
import dataclasses
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedrepro.core import registry
from fedrepro.core.algorithm import Cohort, State
from fedrepro.core.data import Split
from fedrepro.core.engine import NoKeeper, Snapshot
from fedrepro.core.local import LocalSteps, local_phase
from fedrepro.core.model import Model
from fedrepro.core.spec import Choice, Evaluation
from fedrepro.core.tables import encode
from fedrepro.provenance.header import Header
from tests.helpers import Spy, run_engine, spec_of, synthetic_task, trace_of

TRACE = trace_of([0, 2, 3], [1], [], [0, 1, 2, 3], [2], [0, 3])
EVERY_ROUND = Evaluation(test_every=1, train_every=1, final_rounds=0, final_every=1)
pytestmark = pytest.mark.parametrize("name", registry.names("algorithm"))


def spec_with(name: str, **changes: Any) -> Any:
    spec = spec_of(
        algorithm=Choice(name), model=Choice("mlp", {"hidden": (5,)}), rounds=6, evaluation=EVERY_ROUND
    )
    return dataclasses.replace(spec, **changes)


def metrics(name: str, phase: Any = local_phase, **changes: Any) -> bytes:
    spec = spec_with(name, **changes)
    outcome = run_engine(spec, synthetic_task(spec, TRACE), phase)
    assert outcome.status == "ok"
    return encode(outcome.metrics)


def test_two_runs_give_the_same_bytes(name: str) -> None:
    assert metrics(name) == metrics(name)
    assert metrics(name) != metrics(name, seed=4)


def test_the_order_in_which_clients_train_does_not_matter(name: str) -> None:
    calls = []

    def backwards(model: Model, train: Split, work: LocalSteps) -> Tensor:
        calls.append(len(work.start))
        trained = torch.empty_like(work.start)
        for row in reversed(range(len(work.start))):
            chosen = slice(row, row + 1)
            one = work._replace(start=work.start[chosen], draws=work.draws.rows(chosen))
            trained[row] = local_phase(model, train, one)[0]
        return trained

    assert metrics(name, backwards) == metrics(name)
    assert calls == [3, 1, 0, 4, 1, 2]


class Stopper(NoKeeper):
    """Keeps a copy of the state after ``stop`` rounds, and starts a later run from it."""

    def __init__(self, stop: int) -> None:
        self.stop = stop
        self.kept: Snapshot | None = None

    def restore(self) -> Snapshot | None:
        return self.kept

    def committed(self, snapshot: Snapshot) -> None:
        if snapshot.completed == self.stop and self.kept is None:
            self.kept = copy.deepcopy(snapshot)


@pytest.mark.parametrize("stop", range(1, 7))
def test_a_run_resumed_after_any_round_gives_the_same_bytes(name: str, stop: int) -> None:
    spec = spec_with(name)
    task = synthetic_task(spec, TRACE)
    keeper = Stopper(stop)
    straight = run_engine(spec, task, keeper=keeper)
    assert keeper.kept is not None
    resumed = run_engine(spec, task, keeper=keeper)
    assert encode(resumed.metrics) == encode(straight.metrics)


def test_a_run_without_anybody_stays_at_the_initial_model(name: str) -> None:
    spec = spec_with(name)
    outcome = run_engine(spec, synthetic_task(spec, trace_of(*[[]] * 6)))
    assert outcome.status == "ok"
    rows = outcome.metrics.to_pylist()
    for split in ("train", "test"):
        losses = {row["loss"] for row in rows if row["split"] == split and row["evaluated"] == "server"}
        assert len(losses) == 1
    assert {row["active"] for row in rows} == {0}


def test_rounds_of_a_single_client_move_the_server(name: str) -> None:
    spec = spec_with(name)
    spy = Spy(spec)
    outcome = run_engine(spec, synthetic_task(spec, trace_of(*[[2]] * 6)), algorithm=spy)
    assert outcome.status == "ok"
    moved = [float((new - old).norm()) for old, new in zip(spy.servers, spy.servers[1:], strict=False)]
    assert all(0 < distance < 10 for distance in moved)


def test_runs_share_no_tensor(name: str) -> None:
    """The same bound algorithm twice: the second run starts where the first one started."""
    given: list[Tensor] = []

    class Keep(Spy):
        def init(self, server: Tensor, clients: int) -> State:
            given.append(server)
            return super().init(server, clients)

    spec = spec_with(name)
    spy = Keep(spec)
    task = synthetic_task(spec, TRACE)
    first = run_engine(spec, task, algorithm=spy)
    second = run_engine(spec, task, algorithm=spy)
    assert encode(first.metrics) == encode(second.metrics)
    assert given[0].data_ptr() != given[1].data_ptr()
    assert torch.equal(spy.servers[0], spy.servers[7])
    assert not torch.equal(spy.servers[0], spy.servers[6])


def test_global_generators_are_left_alone(name: str) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    first = metrics(name)
    assert random.getstate() == before[0]
    np.testing.assert_equal(np.random.get_state(), before[1])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])
    random.seed(2)
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(2)
    assert metrics(name) == first


def test_the_data_of_a_run_are_not_written_to(name: str) -> None:
    spec = spec_with(name)
    task = synthetic_task(spec, TRACE)
    images, labels = task.train.images.clone(), task.train.labels.clone()
    client, active, probability = task.client.copy(), task.active.copy(), task.probability.copy()
    run_engine(spec, task)
    assert torch.equal(task.train.images, images)
    assert torch.equal(task.train.labels, labels)
    assert (task.client == client).all()
    assert (task.active == active).all()
    assert (task.probability == probability).all()


def cohort(*clients: int) -> Cohort:
    indices, half = torch.tensor(clients, dtype=torch.int64), torch.full((len(clients),), 0.5)
    return Cohort(0, indices, half, half, half, total=4, local_lr=0.1, global_lr=1.0)


def test_only_a_round_changes_state(name: str) -> None:
    spy = Spy(spec_with(name))
    state = spy.init(torch.arange(6.0), 4)
    before = {key: value.clone() for key, value in state.items()}
    spy.start(state, cohort(1, 3)).clone().add_(1)
    for weights in spy.models(state).values():
        weights.clone().add_(1)
    assert all(torch.equal(state[key], value) for key, value in before.items())
    spy.round(state, cohort(1, 3), torch.ones(2, 6))
    assert not torch.equal(state["server"], before["server"])
    assert state.keys() == before.keys()
    assert all(state[key].shape == value.shape for key, value in before.items())
    assert all(state[key].dtype == value.dtype for key, value in before.items())


def test_shapes_of_state_and_start(name: str) -> None:
    spy = Spy(spec_with(name))
    state = spy.init(torch.arange(6.0), 4)
    assert all(isinstance(value, Tensor) for value in state.values())
    assert torch.equal(state["server"], torch.arange(6.0))
    assert spy.start(state, cohort(1, 3)).tolist() == [[0, 1, 2, 3, 4, 5]] * 2
    assert spy.start(state, cohort()).shape == (0, 6)
    if "local" in state:
        assert state["local"].shape == (4, 6)


def test_an_empty_round_is_taken(name: str) -> None:
    spy = Spy(spec_with(name))
    state = spy.init(torch.arange(6.0), 4)
    spy.round(state, cohort(), torch.empty(0, 6))
    assert torch.isfinite(state["server"]).all()
    assert torch.equal(state["server"], torch.arange(6.0))


def test_evaluated_names_the_models(name: str) -> None:
    spy = Spy(spec_with(name))
    found = tuple(spy.models(spy.init(torch.zeros(6), 4)))
    assert found == Header("algorithm", name).constant("EVALUATED", ("server",))
    assert "server" in found


def test_header(name: str) -> None:
    found = Header("algorithm", name)
    assert len(found.constant("CITATION", "")) > 20
    assert found.constant("MEMORY") in {"d", "m", "m*d"}
    module = registry.load("algorithm", name)
    assert len(str(module.__doc__)) > 60
    for params in (found.params(), module.Params):
        value = params()  # every field has a default
        assert dataclasses.is_dataclass(params)
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.anything = 1
    assert dataclasses.asdict(found.params()()) == dataclasses.asdict(module.Params())


def test_memory_is_what_the_header_says(name: str) -> None:
    """Numbers kept for m = 7 clients and d = 100 weights, up to a factor of three."""
    spy = Spy(spec_with(name))
    state = spy.init(torch.zeros(100), 7)
    kept = sum(value.numel() for value in state.values())
    limits = {"d": 3 * 100, "m": 3 * (100 + 7), "m*d": 3 * 700}
    memory = Header("algorithm", name).constant("MEMORY")
    assert kept <= limits[memory]
    assert memory != "m*d" or kept >= 700
