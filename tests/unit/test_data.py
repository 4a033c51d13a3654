"""Prepared splits, and Parquet files with a known schema."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
import torch

from fedrepro.core.data import tensors
from fedrepro.core.prepared import open_split, pack
from fedrepro.core.tables import PARTITION, TRACE, TRAIN_METRICS, column, decode, encode, from_rows, read
from fedrepro.errors import FedreproError


def dataset(mean: tuple[float, ...], std: tuple[float, ...]) -> ModuleType:
    module = ModuleType("dataset")
    module.__dict__.update(MEAN=mean, STD=std)
    return module


def test_pixels_are_scaled_and_normalised_per_channel() -> None:
    """Pixels 0 and 255 become 0 and 1; with mean .5, std .25 they are -2 and 2; channel 2: (x - 0) / .5.

    Exact up to the rounding of 1 / 255.
    """
    images = np.array([[[[0, 255], [255, 0]]]], dtype=np.uint8)  # one image of 1 x 2 pixels, two channels
    records = pack(images, np.array([7]))
    split = tensors(records, dataset((0.5, 0.0), (0.25, 0.5)), torch.float64)
    found = split.batch(torch.tensor([0, 0]))
    expected = torch.tensor([[[-2.0, 2.0]], [[2.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(found, expected.expand(2, -1, -1, -1), rtol=0, atol=1e-14)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert split.images.dtype == torch.uint8
    assert split.labels.tolist() == [7]
    assert split.labels.dtype == torch.int64


def test_a_split_survives_the_file(tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (5, 3, 4, 2), dtype=np.uint8)
    np.save(tmp_path / "split.npy", pack(images, np.arange(5)))
    records = open_split(tmp_path / "split.npy")
    assert (records["image"] == images).all()
    assert records["label"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY garbage", b"text"])
def test_an_unreadable_split_says_what_to_do(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "split.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FedreproError, match=r"split\.npy is not a readable prepared split .*delete it"):
        open_split(path)


TABLE = pa.table({"sample": [0, 1], "label": [3, 4], "client": [1, 0]}).cast(PARTITION)


def test_equal_tables_have_equal_bytes() -> None:
    again = pa.table({"sample": [0, 1], "label": [3, 4], "client": [1, 0]}).cast(PARTITION)
    assert encode(TABLE) == encode(again)
    assert encode(TABLE) != encode(TABLE.slice(1))
    assert decode(encode(TABLE)).equals(TABLE)


def test_no_other_thread_holds_what_was_decoded() -> None:
    """One that let go of it while Python ends would abort the process: a reader of several threads does."""
    content = encode(pa.table({"x": list(range(3000)), "y": [0.5] * 3000}))
    before = sys.getrefcount(content)
    for _ in range(500):
        decode(content)
        assert sys.getrefcount(content) == before


def test_a_known_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(encode(TABLE))
    assert read(tmp_path / "file.parquet", PARTITION).equals(TABLE)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(encode(TABLE))
    with pytest.raises(FedreproError, match=r"file\.parquet has columns .*'sample'.*expected .*'round'"):
        read(tmp_path / "file.parquet", TRACE)


@pytest.mark.parametrize("content", [None, b"", encode(TABLE)[:-10], b"x" * 100])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "file.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FedreproError, match=r"file\.parquet is not a readable Parquet file .*delete it"):
        read(path, PARTITION)


def test_rows_become_the_table_that_pyarrow_makes() -> None:
    rows = [
        {"round": 0, "evaluated": "server", "split": "train", "loss": 0.5, "accuracy": 0.25}
        | {"consensus_error": None, "active": 0},
        {"round": 20, "evaluated": "client_mean", "split": "test", "loss": float("nan"), "accuracy": 1.0}
        | {"consensus_error": 1e-9, "active": 7},
        {"round": 40, "evaluated": "server", "split": "test", "loss": 1e300, "accuracy": 0.0}
        | {"consensus_error": None, "active": 3},
    ]
    expected = pa.Table.from_pylist(rows, schema=TRAIN_METRICS)
    found = decode(encode(from_rows(rows, TRAIN_METRICS)))
    assert found.schema == expected.schema
    assert str(found.to_pylist()) == str(expected.to_pylist())
    assert from_rows([], TRAIN_METRICS).equals(TRAIN_METRICS.empty_table())


@pytest.mark.parametrize("skipped", [0, 1, 9])
def test_columns_are_read_as_pyarrow_reads_them(skipped: int) -> None:
    rng = np.random.default_rng(3)
    columns = {
        "client": pa.array(rng.integers(0, 9, 30), pa.int32()),
        "round": pa.array(rng.integers(0, 9, 30), pa.int32()),
        "probability": pa.array(rng.random(30)),
        "active": pa.array(rng.random(30) < 0.5),
    }
    table = pa.table(columns, schema=TRACE).slice(skipped)
    for name in columns:
        found = column(table, name)
        assert found.dtype == table[name].to_numpy().dtype
        assert (found == table[name].to_numpy()).all()
