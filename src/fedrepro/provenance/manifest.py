"""Manifests: what a finished cell says about itself, and whether that may be published."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fedrepro.core.schedule import FIRST_TRIALS, evaluation_rounds, recorded_rounds
from fedrepro.core.spec import CELL_KINDS, AnalysisSpec, CellSpec, GameSpec, ScalarSpec, build
from fedrepro.core.tables import decode
from fedrepro.errors import FedreproError
from fedrepro.provenance.files import checked, read_json
from fedrepro.provenance.header import header
from fedrepro.provenance.identity import cell_id

SCHEMA_VERSION = 1
STATUSES = ("ok", "diverged")
KEYS = (
    "attempts", "canonical", "cell", "code", "environment", "inputs", "metrics", "modules",
    "peak_memory_bytes", "schema", "seconds", "site", "spec", "started", "status",
)  # fmt: skip

OPTIONAL_KEYS = {"reused"}  # of a cell that was kept after its code changed, see fedrepro.plan.reuse


class Planned(NamedTuple):
    """What the plan expects of a cell: its canonical spec, code digest, and input files by name."""

    canonical: str
    code: str
    inputs: Mapping[str, str]


class Verified(NamedTuple):
    """A cell that passed: its manifest and its metrics."""

    manifest: dict[str, Any]
    metrics: pa.Table


class CellError(FedreproError):
    """A cell that may not be published. ``kind``: ``missing``, ``stale`` or ``invalid``."""

    def __init__(self, kind: str, reason: str):
        super().__init__(reason)
        self.kind = kind


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a cell's manifest and check its form."""
    path = folder / "manifest.json"
    if not path.exists():
        raise CellError("missing", "not run")
    try:
        manifest = read_json(path)
    except FedreproError as error:
        raise CellError("invalid", str(error)) from error
    if manifest.get("schema") != SCHEMA_VERSION or set(manifest) - OPTIONAL_KEYS != set(KEYS):
        raise CellError("invalid", f"{path} is not a manifest of this version of fedrepro")
    return manifest


def cell_spec(cell: str, canonical: str) -> Any:
    """The specification of a cell, whose kind begins its id."""
    return build(CELL_KINDS[cell.split("-")[0]], json.loads(canonical))


def verify(folder: Path, planned: Planned) -> Verified:
    """Check a finished cell against the plan.

    Raises
    ------
    CellError
        If the cell was not run, belongs to another specification, was made by other code or from other
        inputs, or if its metrics are damaged, incomplete or not finite.
    """
    manifest = read_manifest(folder)
    if manifest["canonical"] != planned.canonical:
        raise CellError("invalid", "foreign manifest: it describes another specification")
    spec = cell_spec(folder.name, planned.canonical)
    if not manifest["cell"] == folder.name == cell_id(spec):
        raise CellError("invalid", f"foreign manifest: it belongs to the cell {manifest['cell']}")
    if manifest["code"] != planned.code:
        raise CellError("stale", f"made by other code ({manifest['code']}, now {planned.code})")
    _check_inputs(manifest, planned)
    if manifest["status"] not in STATUSES:
        raise CellError("invalid", f"status {manifest['status']!r} is not one of {STATUSES}")
    metrics = _read_metrics(folder / "metrics.parquet", manifest)
    if manifest["status"] == "ok":
        _check_metrics(spec, metrics)
    return Verified(manifest, metrics)


def expected_rows(spec: CellSpec) -> int | None:
    """Rows of a cell that did not diverge; None where only its plugin knows."""
    if isinstance(spec, AnalysisSpec):
        return None
    if isinstance(spec, ScalarSpec):
        records = len(recorded_rounds(spec))
        averages = 1 + (spec.trials > FIRST_TRIALS)
        return averages * records + spec.trials + spec.paths * (records - 1)
    if isinstance(spec, GameSpec):
        return len(recorded_rounds(spec)) * len(spec.participation.upper)
    models = header("algorithm", spec.algorithm.name).constant("EVALUATED", ("server",))
    evaluations = (evaluation_rounds(spec.rounds, spec.evaluation, s) for s in ("train", "test"))
    return len(models) * sum(map(len, evaluations))


def _check_inputs(manifest: dict[str, Any], planned: Planned) -> None:
    if set(manifest["inputs"]) != set(planned.inputs):
        raise CellError("stale", "made from other input files")
    for name, path in planned.inputs.items():
        try:
            now = checked(Path(path))
        except FedreproError as error:
            raise CellError("invalid", str(error)) from error
        if manifest["inputs"][name]["sha256"] != now:
            raise CellError("stale", f"{path} has changed since the cell was run")


def _read_metrics(path: Path, manifest: dict[str, Any]) -> pa.Table:
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != manifest["metrics"]["sha256"]:
            raise CellError("invalid", f"{path} is truncated or changed: not the file the run wrote")
        return decode(content)
    except (OSError, pa.ArrowInvalid) as error:
        raise CellError("invalid", f"{path} cannot be read ({error})") from error


def _check_metrics(spec: Any, metrics: pa.Table) -> None:
    expected = expected_rows(spec)
    if expected is not None and len(metrics) != expected:
        raise CellError("invalid", f"{len(metrics)} rows, expected {expected}")
    if not len(metrics):
        raise CellError("invalid", "no rows")
    for name, column in zip(metrics.column_names, metrics.columns, strict=True):
        if pa.types.is_floating(column.type):
            values = column.drop_null().to_pylist()
            if not all(map(math.isfinite, values)):
                raise CellError("invalid", f"column {name} holds values that are not finite")
