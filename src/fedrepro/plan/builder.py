"""Cells and the shared inputs they need, as jobs of the workflow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fedrepro.core.spec import PartitionSpec, TraceSpec
from fedrepro.plan.cards import DATA, prepare_spec, raw_files
from fedrepro.plan.grid import Entry
from fedrepro.provenance import jobs
from fedrepro.provenance.code import closure, code_digest
from fedrepro.provenance.identity import canonical_json, cell_id, dumps, job_id

# fields of a specification that determine its inputs
INPUT_FIELDS = ("kind", "dataset", "seed", "partition", "dynamics", "rounds")


@dataclass(frozen=True)
class Job:
    """A job of the workflow. ``spec`` and ``code`` decide whether it must run again."""

    step: str
    spec: str
    code: str
    inputs: Mapping[str, str] = field(default_factory=dict)


class Builder:
    """Collects cells and the shared inputs they need; what two experiments share is one job."""

    def __init__(self, out: str) -> None:
        self._out = out
        self.datasets: dict[str, Job] = {}
        self.partitions: dict[str, Job] = {}
        self.traces: dict[str, Job] = {}
        self.cells: dict[str, Job] = {}
        self._known: dict[str, dict[str, str]] = {}

    def cell(self, entry: Entry) -> str:
        """Register a cell; returns its id."""
        spec, text = entry.spec, dumps(entry.canonical)
        cell = cell_id(spec, text)
        if cell not in self.cells:
            self.cells[cell] = self._job(spec.kind, spec, text, self._inputs(entry))
        return cell

    def _inputs(self, entry: Entry) -> dict[str, str]:
        """Shared inputs of a cell, looked up by what determines them: most cells of a seed have the same."""
        if getattr(entry.spec, "dataset", None) is None:
            return {}
        key = dumps([entry.canonical.get(name) for name in INPUT_FIELDS])
        if key not in self._known:
            self._known[key] = self._shared(entry.spec)
        return self._known[key]

    def _shared(self, spec: Any) -> dict[str, str]:
        """Inputs in the order of their making, each from those before: the last sidecar is the newest."""
        splits = self._dataset(spec.dataset)
        shared = PartitionSpec(spec.dataset, spec.seed, spec.partition)
        text = canonical_json(shared)
        partition = job_id(spec.seed, text, spec.dataset, f"m{spec.partition.clients}")
        partition_file = f"{self._out}/partitions/{partition}.parquet"
        if partition not in self.partitions:
            self.partitions[partition] = self._job("partition", shared, text, {"train": splits["train"]})
        if spec.kind == "analysis":
            return {"partition": partition_file}
        traced = TraceSpec(spec.dataset, spec.seed, spec.partition, spec.dynamics, spec.rounds)
        text = canonical_json(traced)
        trace = job_id(spec.seed, text, spec.dataset, spec.dynamics.name)
        if trace not in self.traces:
            self.traces[trace] = self._job("trace", traced, text, {"partition": partition_file})
        return splits | {
            "partition": partition_file,
            "trace": f"{self._out}/traces/{trace}.parquet",
        }

    def _dataset(self, dataset: str) -> dict[str, str]:
        if dataset not in self.datasets:
            spec = prepare_spec(dataset)
            self.datasets[dataset] = self._job("prepare", spec, canonical_json(spec), raw_files(dataset))
        return {split: f"{DATA}/{dataset}/{split}.npy" for split in ("train", "test")}

    @staticmethod
    def _job(step: str, spec: Any, text: str, inputs: dict[str, str]) -> Job:
        return Job(step, text, digest(tuple(jobs.modules(step, spec))), inputs)


@cache
def digest(modules: tuple[str, ...]) -> str:
    """Digest of the code that modules and all they import make up."""
    return code_digest(closure(modules))
