"""The kinds of job that run our code, and the modules that make up each one's code."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, NamedTuple

from fedrepro.core.registry import FOLDERS, module_name
from fedrepro.core.spec import (
    AnalysisSpec,
    Choice,
    GameSpec,
    PartitionSpec,
    PrepareSpec,
    ScalarSpec,
    TraceSpec,
    TrainSpec,
)


class Job(NamedTuple):
    """A step of the workflow: its specification and its entry module."""

    spec: type
    entry: str


JOBS = {
    "prepare": Job(PrepareSpec, "fedrepro.inputs.prepare"),
    "partition": Job(PartitionSpec, "fedrepro.inputs.partition"),
    "trace": Job(TraceSpec, "fedrepro.inputs.trace"),
    "train": Job(TrainSpec, "fedrepro.cells.train"),
    "scalar": Job(ScalarSpec, "fedrepro.cells.scalar"),
    "game": Job(GameSpec, "fedrepro.cells.game"),
    "analysis": Job(AnalysisSpec, "fedrepro.cells.analysis"),
}


def modules(step: str, spec: Any) -> list[str]:
    """Entry module and plugins of a job: the roots of its code closure."""
    return [JOBS[step].entry, *(module_name(kind, name) for kind, name in plugins(spec))]


def plugins(spec: Any) -> Iterator[tuple[str, str]]:
    """(kind, name) of every plugin a specification names."""
    for item in fields(spec):
        value = getattr(spec, item.name)
        if item.name in FOLDERS and value is not None:
            yield item.name, value.name if isinstance(value, Choice) else value
