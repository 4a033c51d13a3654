"""What cells are expected to take: records, work, the file for the queue, and how far off it is."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.core.spec import Choice, Partition, TrainSpec
from fedrepro.errors import FedreproError
from fedrepro.plan import probe
from fedrepro.plan.cost import Cost, Costs, read_costs, write_costs
from fedrepro.plan.estimate import START, Estimator, wall_seconds
from fedrepro.plan.plan import Plan, make_plan
from fedrepro.plan.probe import Probe
from fedrepro.plan.records import Record, read_records
from fedrepro.plan.work import Work, alike, mean_cohort, state_mb, work
from fedrepro.provenance.manifest import cell_spec
from tests.helpers import ROOT, SPEC, FinishedCell, spec_of


def record(spec: TrainSpec, seconds: float, device: str = "cpu", memory: float = 700.0) -> Record:
    return Record(spec, seconds, memory, device)


def test_work_of_a_training_cell() -> None:
    """4 rounds of 2 steps of 5 images, three passes each; evaluated on 1,000 at 5 rounds, on 4,000 at 4.

    One client that is always available (uniform sampling of 1 of 4), so the cohort is exactly 1.
    """
    spec = spec_of(dynamics=Choice("uniform_sampling", {"sampled": 1}))
    assert mean_cohort(spec) == pytest.approx(1)
    assert work(spec).training == pytest.approx(4 * 2 * 5 * 3)
    assert work(spec).evaluation == 5 * 1000 + 4 * 4000
    assert work(replace(spec, algorithm=Choice("fedswe"))).evaluation == 2 * work(spec).evaluation


def test_cohorts_follow_the_seed_and_the_dynamics() -> None:
    """Half the time of a group's window: half the clients of a static one; a sine of mean 0.7."""
    still = spec_of(rounds=2000)
    assert mean_cohort(replace(still, dynamics=Choice("sine"))) == pytest.approx(0.7 * mean_cohort(still))
    halves = replace(still, dynamics=Choice("group_windows"))
    assert mean_cohort(halves) == pytest.approx(0.5 * mean_cohort(still))
    assert mean_cohort(still) != mean_cohort(replace(still, seed=4))


def test_state_has_tables_where_the_algorithm_says_so() -> None:
    """A linear layer on 28 x 28 pixels: 7,850 weights of four bytes; MIFA keeps four clients' as well."""
    assert state_mb(SPEC) == pytest.approx(4e-6 * 7850)
    assert state_mb(spec_of(algorithm=Choice("mifa"))) == pytest.approx(5 * 4e-6 * 7850)


def test_records_are_scaled_by_work() -> None:
    known = spec_of(rounds=100)
    longer = spec_of(rounds=300, algorithm=Choice("fedavg_all"))
    estimator = Estimator([record(known, 11.0), record(known, 11.0)], {})
    assert estimator.source(known) == "same" and estimator.cost(known).seconds == pytest.approx(11)
    factor = sum(work(longer)) / sum(work(known))
    assert estimator.source(longer) == "alike"
    assert estimator.cost(longer).seconds == pytest.approx(START + (11 - START) * factor)
    assert estimator.source(spec_of(batch_size=50)) == "none"


def test_memory_has_the_algorithms_tables() -> None:
    estimator = Estimator([record(SPEC, 5.0)], {})
    mifa = spec_of(algorithm=Choice("mifa"), partition=Partition(clients=1000, alpha=0.5))
    assert estimator.cost(mifa).memory_mb == pytest.approx(700 + 2 * (state_mb(mifa) - state_mb(SPEC)))


def test_a_gpus_records_count_where_there_are_some() -> None:
    estimator = Estimator([record(SPEC, 100.0), record(SPEC, 5.0, "H200")], {})
    assert estimator.device == "H200" and estimator.cost(SPEC).seconds == pytest.approx(5)


def test_a_probe_serves_where_there_is_no_record() -> None:
    estimator = Estimator([], {alike(SPEC): Probe("cpu", training=0.01, evaluation=0.001, memory_mb=600)})
    amount: Work = work(SPEC)
    expected = START + 0.01 * amount.training + 0.001 * amount.evaluation
    assert estimator.cost(SPEC).seconds == pytest.approx(expected)


def test_a_probe_measures_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDREPRO_DEVICE", "cpu")
    (found,) = probe.probes([SPEC]).values()
    assert found.device == "cpu" and found.training > 0 and found.evaluation > 0 and found.memory_mb > 50
    monkeypatch.setattr(probe, "run", lambda spec: pytest.fail("measured again"))
    assert probe.probes([SPEC]) == {alike(SPEC): found}


def test_records_come_from_manifests_of_one_attempt(cell: FinishedCell, tmp_path: Path) -> None:
    def seconds() -> list[float]:
        return [item.seconds for item in read_records(tmp_path / "results")]

    shutil.copytree(cell.folder, tmp_path / "results/tiny/cells" / cell.folder.name)
    moved = FinishedCell(tmp_path / "results/tiny/cells" / cell.folder.name, cell.planned, cell.spec)
    assert seconds() == [1.0]
    moved.rewrite(attempts=2)
    assert seconds() == []
    moved.rewrite(attempts=1, canonical='{"of": "another version"}')
    assert seconds() == []


def test_the_queue_is_asked_for_more_with_every_attempt(tmp_path: Path) -> None:
    """100 s: 2.5 and 10 minutes, rounded up. 1,000 MB: 1,250 and 400, rounded up to hundreds."""
    write_costs(str(tmp_path), {"train-a": Cost(100.0, 1000.0)})
    costs = read_costs(str(tmp_path))
    assert [costs.minutes("train-a", n) for n in (1, 2)] == [13, 26]
    assert [costs.memory_mb("train-a", n) for n in (1, 2)] == [1700, 3400]
    assert (costs.minutes("train-b", 1), costs.memory_mb("train-b", 1)) == (190, 4200), "not estimated"
    assert Costs({}, limit_minutes=60).minutes("train-b", 1) == 60


@pytest.mark.parametrize("text", ["0", "-5", "1h", "1.5", ""])
def test_a_bad_limit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("FEDREPRO_MAX_MINUTES", text)
    with pytest.raises(FedreproError, match=f"FEDREPRO_MAX_MINUTES is '{text}'; allowed: whole minutes"):
        read_costs(str(tmp_path))


@pytest.mark.parametrize(
    "content", ["{}", '{"cells": [1]}', '{"cells": {"a": [1]}}', '{"cells": {"a": "xy"}}']
)
def test_a_damaged_estimate_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "cost.json").write_text(content)
    with pytest.raises(FedreproError, match=r"cost\.json is no estimate of this version; run"):
        read_costs(str(tmp_path))


DEMO = json.loads((ROOT / "tests/unit/demo_costs.json").read_text())


def demo_records(plan: Plan) -> list[Record]:
    """What `make demo` took on some machine, for the cells that the demo still has."""
    known = {cell: facts for cell, facts in DEMO["cells"].items() if cell in plan.cells}
    assert len(known) > 0.8 * len(plan.reported_cells), "record a demo anew: tests/unit/demo_costs.json"
    return [
        Record(cell_spec(cell, plan.cells[cell].spec), seconds, memory, "cpu")
        for cell, (seconds, memory) in known.items()
    ]


def test_a_finished_demo_is_estimated_within_30_percent(
    record_property: Callable[[str, object], None],
) -> None:
    """The training cells of two seeds from the third's, and the whole run on its two cores from its cells."""
    plan = make_plan(ROOT, {"tier": "demo"})
    records = demo_records(plan)
    training = [item for item in records if item.spec.kind == "train"]
    first, others = ([r for r in training if (r.spec.seed == 3) == known] for known in (True, False))
    estimator = Estimator(first, {})
    hours = sum(estimator.cost(r.spec).seconds for r in others) / sum(r.seconds for r in others)
    estimator = Estimator(records, {})
    costs = {cell: estimator.cost(cell_spec(cell, job.spec)) for cell, job in plan.cells.items()}
    wall = wall_seconds(plan, plan.reported_cells, costs, DEMO["workers"]) / DEMO["wall_seconds"]
    record_property("hours", hours)
    record_property("wall", wall)
    print(f"estimated over measured: hours {hours:.2f}, wall {wall:.2f}")
    assert 0.7 < hours < 1.3
    assert 0.7 < wall < 1.3
