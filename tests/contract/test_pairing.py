"""Runs of one seed differ in the algorithm and in nothing else."""

import hashlib
import json
from collections import defaultdict

import numpy as np
import pytest
from torch import Tensor

from fedrepro.core import registry
from fedrepro.core.data import Split
from fedrepro.core.local import LocalSteps, local_phase
from fedrepro.core.model import Model
from fedrepro.core.spec import Choice
from fedrepro.plan.plan import Plan, make_plan
from tests.helpers import ROOT, run_engine, spec_of, synthetic_task, trace_of

TRACE = trace_of([0, 2, 3], [1], [], [0, 1, 2, 3], [2], [0, 3])


class Recorder:
    """A local phase that hashes what it is given."""

    def __init__(self) -> None:
        self.batches = hashlib.sha256()
        self.first_start = ""
        self.rates: list[float] = []

    def __call__(self, model: Model, train: Split, work: LocalSteps) -> Tensor:
        for part in work.draws:
            self.batches.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
        self.first_start = self.first_start or hashlib.sha256(work.start.numpy().tobytes()).hexdigest()
        self.rates.append(work.lr)
        return local_phase(model, train, work)


def recorded(algorithm: str, seed: int = 3) -> tuple[str, str, list[float]]:
    """Hashes of all minibatches and of the weights at which round 0 starts, and the step sizes."""
    spec = spec_of(rounds=6, algorithm=Choice(algorithm), seed=seed, crop=1, flip=True)
    recorder = Recorder()
    run_engine(spec, synthetic_task(spec, TRACE), recorder)
    return recorder.batches.hexdigest(), recorder.first_start, recorder.rates


@pytest.mark.parametrize("name", registry.names("algorithm"))
def test_batches_initial_weights_and_step_sizes_are_shared(name: str) -> None:
    reference = recorded("fedavg_active")
    assert recorded(name) == reference
    other = recorded(name, seed=4)
    assert other[0] != reference[0]
    assert other[1] != reference[1]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(ROOT, {"tier": "tiny"})


def test_cells_of_a_seed_and_dynamics_share_their_input_files(plan: Plan) -> None:
    inputs = defaultdict(set)
    algorithms = defaultdict(set)
    for job in plan.cells.values():
        if job.step == "train":
            spec = json.loads(job.spec)
            key = (spec["seed"], spec["dataset"], json.dumps(spec["dynamics"]), json.dumps(spec["partition"]))
            inputs[key].add(tuple(sorted(job.inputs.items())))
            algorithms[key].add(spec["algorithm"]["name"])
    assert len(inputs) >= 3
    assert {len(files) for files in inputs.values()} == {1}
    assert max(len(names) for names in algorithms.values()) == 9, "all of Table 2"
    compared = [names for names in algorithms.values() if len(names) >= 2]
    assert len(compared) == 2, "Table 2 and Section 7.1 under one dynamics each; Figure 3 has FedAvg alone"


def test_one_partition_serves_every_dynamics_of_a_seed(plan: Plan) -> None:
    partitions = defaultdict(set)
    for job in plan.traces.values():
        spec = json.loads(job.spec)
        partitions[spec["seed"], json.dumps(spec["partition"])].add(job.inputs["partition"])
    assert {len(files) for files in partitions.values()} == {1}
    assert len(plan.traces) > len(partitions)


def test_no_shared_specification_names_an_algorithm(plan: Plan) -> None:
    jobs = [*plan.traces.values(), *plan.partitions.values(), *plan.datasets.values()]
    assert jobs
    for job in jobs:
        assert "algorithm" not in json.loads(job.spec)
        assert not any(name in job.spec for name in registry.names("algorithm"))
