"""What a tier will take: seconds and memory of every cell, from records of finished ones or a probe."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrepro.core.spec import CELL_KINDS, ScalarSpec, TrainSpec
from fedrepro.plan import probe
from fedrepro.plan.cards import card
from fedrepro.plan.cost import Cost, cost_path, write_costs
from fedrepro.plan.plan import Plan
from fedrepro.plan.records import Record, read_records
from fedrepro.plan.status import to_run
from fedrepro.plan.work import alike, state_mb, work
from fedrepro.provenance.header import header
from fedrepro.provenance.identity import canonical_json
from fedrepro.provenance.manifest import cell_spec

START = 1.0  # seconds of a cell apart from its work: libraries, data
JOB = 0.4  # seconds that Snakemake adds to a job of its own machine, and of a job that is no cell
GRADIENT = 7e-10  # seconds of a stochastic gradient of a scalar cell, where there is no record
LITTLE = Cost(10.0, 700.0)  # a game or an analysis without a record
SCALAR_MB = 500.0
CHECKPOINTS = 2  # kept of every running cell
WORKERS = (1, 2, 4, 8, 16)
CELL_MB, TRACE_BYTES = 0.05, 2.0  # of a cell's files and log; of one client and round in a trace


class Estimator:
    """Predicts cells from records, the more alike the better, and from probes.

    Parameters
    ----------
    records : iterable of Record
        Training on CPUs is left out where there is some on GPUs.
    probes : mapping
        By class (`fedrepro.plan.work.alike`).
    """

    def __init__(self, records: Iterable[Record], probes: Mapping[str, probe.Probe]):
        self._probes = probes
        found = list(records)
        devices = Counter(r.device for r in found if isinstance(r.spec, TrainSpec))
        devices.update(item.device for item in probes.values())
        gpus = [name for name, _ in devices.most_common() if name != "cpu"]
        self.device = (*gpus, "cpu")[0]
        self._same: dict[str, list[Record]] = defaultdict(list)
        self._alike: dict[str, list[Record]] = defaultdict(list)
        for record in found:
            if not isinstance(record.spec, TrainSpec) or record.device == self.device:
                self._same[_seedless(record.spec)].append(record)
                self._alike[alike(record.spec)].append(record)

    def source(self, spec: Any) -> str:
        """Where a prediction comes from: ``same``, ``alike``, ``probe``, or ``none``."""
        if _seedless(spec) in self._same:
            return "same"
        if alike(spec) in self._alike:
            return "alike"
        return "probe" if alike(spec) in self._probes else "none"

    def cost(self, spec: Any) -> Cost:
        """Seconds and peak memory of a cell.

        What records took apart from their start counts, in proportion to the work: those of the same cell
        with any seed, or else of all cells with the same network, data and minibatches.
        """
        source = self.source(spec)
        if source == "none":
            seconds = START + sum(work(spec)) * GRADIENT
            return Cost(seconds, SCALAR_MB) if isinstance(spec, ScalarSpec) else LITTLE
        amount = work(spec)
        if source != "probe":
            records = self._same[_seedless(spec)] if source == "same" else self._alike[alike(spec)]
            start = min(START, *(r.seconds for r in records))
            spent = sum(r.seconds - start for r in records)
            done = sum(sum(work(r.spec)) for r in records)
            memory = max(r.memory_mb - _held(r.spec) for r in records) + _held(spec)
            return Cost(start + spent / done * sum(amount), memory)
        known = self._probes[alike(spec)]
        seconds = amount.training * known.training + amount.evaluation * known.evaluation
        return Cost(START + seconds, known.memory_mb + _held(spec))


def print_estimate(plan: Plan, results: Path) -> None:
    """Write ``cost.json`` and print what is left to do: cells, hours, memory, disk."""
    estimator, costs = _estimate(plan, results)
    write_costs(plan.out, costs)
    left = to_run(plan)
    sources = Counter(estimator.source(_spec(plan, cell)) for cell in left)
    print(
        f"tier {plan.config.tier}: {len(plan.reported_cells)} cells, {len(left)} to run, "
        f"training on {estimator.device}"
    )
    words = {"same": "of other seeds", "alike": "alike", "probe": "by ten rounds", "none": "by rule of thumb"}
    print(
        "estimated "
        + (", ".join(f"{sources[key]} {words[key]}" for key in words if sources[key]) or "nothing")
    )
    print(f"\n{'kind':<10}{'cells':>7}{'hours':>10}{'longest, h':>12}{'memory, GB':>12}")
    for kind in CELL_KINDS:
        if own := [costs[cell] for cell in left if plan.cells[cell].step == kind]:
            hours = [cost.seconds / 3600 for cost in own]
            memory = max(cost.memory_mb for cost in own) / 1000
            print(f"{kind:<10}{len(own):>7}{sum(hours):>10.2f}{max(hours):>12.2f}{memory:>12.1f}")
    unit = "cores" if estimator.device == "cpu" else "GPUs"
    times = (f"{workers}: {wall_seconds(plan, left, costs, workers) / 3600:.2f}" for workers in WORKERS)
    print(f"\nwall hours by {unit}  {'  '.join(times)}")
    for name, size in disk_gb(plan, left).items():
        print(f"disk, GB  {size:8.2f}  {name}")
    print(f"\nwritten: {cost_path(plan.out)}")


def wall_seconds(plan: Plan, cells: Sequence[str], costs: Mapping[str, Cost], workers: int) -> float:
    """Time of a run in which so many jobs run at once."""
    if not cells:
        return 0.0
    seconds = [costs[cell].seconds + JOB for cell in cells]
    others = len(plan.partitions) + len(plan.traces) + len(plan.reported_experiments) + len(plan.reported)
    return max((sum(seconds) + others * JOB) / workers, max(seconds))


def disk_gb(plan: Plan, cells: Sequence[str]) -> dict[str, float]:
    """Space that a tier needs, in GB, with the checkpoints of as many cells as `WORKERS` has at most."""
    cards = {name: card(name) for name in plan.datasets}
    raw = sum(file.bytes for facts in cards.values() for file in facts.files.values())
    prepared = 0
    for name, facts in cards.items():
        height, width, channels = header("dataset", name).constant("SHAPE")
        prepared += sum(facts.samples.values()) * (height * width * channels + 1)
    traced = {job.inputs["trace"]: cell for cell, job in plan.cells.items() if "trace" in job.inputs}
    sizes = [(spec.partition.clients, spec.rounds) for spec in (_spec(plan, c) for c in traced.values())]
    traces = sum(clients * rounds * TRACE_BYTES for clients, rounds in sizes)
    specs = [_spec(plan, cell) for cell in cells]
    states = sorted((state_mb(spec) for spec in specs if isinstance(spec, TrainSpec)), reverse=True)
    return {
        "downloads": raw / 1e9,
        "prepared data": prepared / 1e9,
        "traces": traces / 1e9,
        "cells": len(plan.reported_cells) * CELL_MB / 1e3,
        f"checkpoints of {WORKERS[-1]} running cells": CHECKPOINTS * sum(states[: WORKERS[-1]]) / 1e3,
    }


def _estimate(plan: Plan, results: Path) -> tuple[Estimator, dict[str, Cost]]:
    records = list(read_records(results))
    known = {alike(r.spec) for r in records}
    specs = {cell: _spec(plan, cell) for cell in plan.cells}
    lacking = {alike(s): s for s in specs.values() if isinstance(s, TrainSpec) and alike(s) not in known}
    estimator = Estimator(records, probe.probes(lacking.values()))
    return estimator, {cell: estimator.cost(spec) for cell, spec in specs.items()}


def _spec(plan: Plan, cell: str) -> Any:
    return cell_spec(cell, plan.cells[cell].spec)


def _seedless(spec: Any) -> str:
    return canonical_json(replace(spec, seed=0))


def _held(spec: Any) -> float:
    """MB of a training run's state, and as much again in a round's work on it."""
    return 2 * state_mb(spec) if isinstance(spec, TrainSpec) else 0.0
