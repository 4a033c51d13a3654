"""What cells have taken so far: seconds and memory from the manifests of all tiers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedrepro.provenance.manifest import CellError, cell_spec, read_manifest


class Record(NamedTuple):
    """One finished cell that ran in one attempt."""

    spec: Any
    seconds: float
    memory_mb: float
    device: str


def read_records(results: Path) -> Iterator[Record]:
    """The records of a results folder; what is no cell of this version is left out."""
    for path in sorted(results.glob("*/cells/*/manifest.json")):
        try:
            manifest = read_manifest(path.parent)
            spec = cell_spec(path.parent.name, manifest["canonical"])
        except (CellError, TypeError, KeyError):  # the last two: a specification of another version
            continue
        if manifest["status"] == "ok" and manifest["attempts"] == 1:
            memory = manifest["peak_memory_bytes"] / 1e6
            yield Record(spec, manifest["seconds"], memory, manifest["environment"].get("device", "cpu"))
