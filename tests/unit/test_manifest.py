"""What a finished cell must be before its numbers may be published: the truth table of `verify`."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedrepro.core.spec import Choice
from fedrepro.core.tables import TRAIN_METRICS, decode, encode
from fedrepro.provenance.files import describe, sidecar_path
from fedrepro.provenance.identity import canonical_json, cell_id, dumps
from fedrepro.provenance.manifest import CellError, expected_rows, verify
from tests.helpers import FinishedCell, spec_of


def refusal(cell: FinishedCell) -> tuple[str, str]:
    """Kind and reason with which a cell is refused."""
    with pytest.raises(CellError) as caught:
        verify(cell.folder, cell.planned)
    return caught.value.kind, str(caught.value)


def metrics(cell: FinishedCell) -> pa.Table:
    return decode((cell.folder / "metrics.parquet").read_bytes())


def with_loss(cell: FinishedCell, value: float) -> bytes:
    rows = metrics(cell).to_pylist()
    rows[-1]["loss"] = value
    return encode(pa.Table.from_pylist(rows, schema=TRAIN_METRICS))


def test_an_untouched_cell_passes(cell: FinishedCell) -> None:
    verified = verify(cell.folder, cell.planned)
    assert verified.manifest["status"] == "ok"
    assert verified.manifest == cell.manifest()
    assert verified.metrics.equals(metrics(cell))


def test_a_cell_that_was_not_run_is_missing(cell: FinishedCell) -> None:
    (cell.folder / "manifest.json").unlink()
    assert refusal(cell) == ("missing", "not run")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 1}'])
def test_a_malformed_manifest_is_invalid(cell: FinishedCell, text: str) -> None:
    (cell.folder / "manifest.json").write_text(text)
    kind, reason = refusal(cell)
    assert kind == "invalid"
    assert "manifest.json" in reason


@pytest.mark.parametrize("key", ["metrics", "environment", "status", "inputs"])
def test_a_manifest_without_a_key_is_invalid(cell: FinishedCell, key: str) -> None:
    manifest = cell.manifest()
    del manifest[key]
    (cell.folder / "manifest.json").write_text(json.dumps(manifest))
    assert refusal(cell)[0] == "invalid"


def test_a_manifest_of_another_version_is_invalid(cell: FinishedCell) -> None:
    cell.rewrite(schema=0)
    assert "not a manifest of this version" in refusal(cell)[1]


def test_a_manifest_of_another_specification_is_foreign(cell: FinishedCell) -> None:
    cell.rewrite(canonical=canonical_json(spec_of(seed=4)))
    kind, reason = refusal(cell)
    assert kind == "invalid"
    assert "another specification" in reason


def test_a_manifest_of_another_cell_is_foreign(cell: FinishedCell) -> None:
    cell.rewrite(cell=cell_id(spec_of(seed=4)))
    kind, reason = refusal(cell)
    assert kind == "invalid"
    assert cell_id(spec_of(seed=4)) in reason


def test_a_cell_in_the_folder_of_another_is_foreign(cell: FinishedCell) -> None:
    """Even where manifest and folder agree, the specification decides the name."""
    name = cell_id(spec_of(seed=4))
    folder = cell.folder.rename(cell.folder.with_name(name))
    moved = FinishedCell(folder, cell.planned, cell.spec)
    moved.rewrite(cell=name)
    assert refusal(moved)[0] == "invalid"


def test_other_code_makes_it_stale(cell: FinishedCell) -> None:
    changed = FinishedCell(cell.folder, cell.planned._replace(code="0" * 12), cell.spec)
    kind, reason = refusal(changed)
    assert kind == "stale"
    assert cell.planned.code in reason
    assert "0" * 12 in reason


def test_a_changed_input_makes_it_stale(cell: FinishedCell) -> None:
    path = Path(cell.planned.inputs["trace"])
    path.write_bytes(b"another trace")
    sidecar_path(path).write_text(dumps(describe(b"another trace", 1)))
    kind, reason = refusal(cell)
    assert kind == "stale"
    assert str(path) in reason


def test_other_input_files_make_it_stale(cell: FinishedCell) -> None:
    inputs = {name: path for name, path in cell.planned.inputs.items() if name != "trace"}
    changed = FinishedCell(cell.folder, cell.planned._replace(inputs=inputs), cell.spec)
    assert refusal(changed) == ("stale", "made from other input files")


def damage_input(cell: FinishedCell) -> None:
    Path(cell.planned.inputs["partition"]).write_bytes(b"short")


def drop_input(cell: FinishedCell) -> None:
    Path(cell.planned.inputs["partition"]).unlink()


def truncate(cell: FinishedCell) -> None:
    path = cell.folder / "metrics.parquet"
    path.write_bytes(path.read_bytes()[:-20])


def flip(cell: FinishedCell) -> None:
    path = cell.folder / "metrics.parquet"
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(bytes(content))


def lose(cell: FinishedCell) -> None:
    (cell.folder / "metrics.parquet").unlink()


def garble(cell: FinishedCell) -> None:
    cell.replace_metrics(b"not parquet at all")


def shorten(cell: FinishedCell) -> None:
    cell.replace_metrics(encode(metrics(cell).slice(1)))


def empty(cell: FinishedCell) -> None:
    cell.replace_metrics(encode(metrics(cell).slice(0, 0)))


def not_a_number(cell: FinishedCell) -> None:
    cell.replace_metrics(with_loss(cell, math.nan))


def infinite(cell: FinishedCell) -> None:
    cell.replace_metrics(with_loss(cell, math.inf))


def mislabel(cell: FinishedCell) -> None:
    cell.rewrite(status="fine")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (damage_input, "does not match its sidecar"),
        (drop_input, "is missing"),
        (truncate, "truncated or changed"),
        (flip, "truncated or changed"),
        (lose, "cannot be read"),
        (garble, "cannot be read"),
        (shorten, "8 rows, expected 9"),
        (empty, "0 rows, expected 9"),
        (not_a_number, "column loss holds values that are not finite"),
        (infinite, "column loss holds values that are not finite"),
        (mislabel, "status 'fine'"),
    ],
)
def test_a_damaged_cell_is_invalid(
    cell: FinishedCell, harm: Callable[[FinishedCell], Any], reason: str
) -> None:
    harm(cell)
    kind, message = refusal(cell)
    assert kind == "invalid"
    assert reason in message


def test_a_diverged_cell_is_a_result(cell: FinishedCell) -> None:
    """Fewer rows and values that are not finite belong to a run that says it diverged."""
    rows = metrics(cell).slice(0, 3).to_pylist()
    rows[-1]["loss"] = math.inf
    cell.replace_metrics(encode(pa.Table.from_pylist(rows, schema=TRAIN_METRICS)))
    cell.rewrite(status="diverged")
    verified = verify(cell.folder, cell.planned)
    assert verified.manifest["status"] == "diverged"
    assert len(verified.metrics) == 3


def test_expected_rows_by_hand() -> None:
    """T = 4: test at 0..4, train at 0, 2, 3, 4: nine rows a model, of which FedSWE has two."""
    assert expected_rows(spec_of()) == 9
    assert expected_rows(spec_of(algorithm=Choice("fedswe"))) == 18
