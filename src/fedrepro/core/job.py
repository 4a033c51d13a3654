"""What an entry module takes and gives: ``run(spec, inputs, context) -> Result``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedrepro.core import registry
from fedrepro.core.spec import Choice, build

Inputs = Mapping[str, Path]


class Artifact(NamedTuple):
    """The content of one output file, and how many rows it holds."""

    content: bytes
    rows: int


@dataclass(frozen=True)
class Result:
    """Output files by name; ``status`` is ``ok`` or ``diverged``."""

    files: Mapping[str, Artifact]
    status: str = "ok"


@dataclass(frozen=True)
class Context:
    """What surrounds a job and cannot change its result.

    ``observe`` is told of progress; ``keeper`` keeps a training run's state across interruptions.
    """

    device: str = "cpu"
    threads: int = 1
    observe: Callable[[Any], None] = field(default=lambda progress: None)
    keeper: Any = None


def bind(kind: str, choice: Choice) -> tuple[Any, Any]:
    """Load a plugin and build its parameters: (module, params)."""
    plugin = registry.load(kind, choice.name)
    return plugin, build(plugin.Params, choice.params)
