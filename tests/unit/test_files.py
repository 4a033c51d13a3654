"""Atomic writing, and sidecars that vouch for big files."""

import json
import os
from pathlib import Path

import pytest

from fedrepro.errors import FedreproError
from fedrepro.provenance.files import checked, describe, read_json, sidecar_path
from fedrepro.runtime.atomic import write_all, write_if_changed
from tests.helpers import python


def entries(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_all_files_are_written_with_their_folders(tmp_path: Path) -> None:
    write_all({tmp_path / "a" / "x": b"1", tmp_path / "b" / "c" / "y": b"2"})
    assert (tmp_path / "a" / "x").read_bytes() == b"1"
    assert (tmp_path / "b" / "c" / "y").read_bytes() == b"2"
    assert entries(tmp_path) == ["a", "a/x", "b", "b/c", "b/c/y"]


def test_a_file_in_place_of_a_folder_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "folder").write_bytes(b"a file")
    with pytest.raises(FedreproError, match=r"cannot write .*folder/x.*nothing was changed"):
        write_all({tmp_path / "old": b"new", tmp_path / "folder" / "x": b"2"})
    assert (tmp_path / "old").read_bytes() == b"old"
    assert entries(tmp_path) == ["folder", "old"]


@pytest.mark.parametrize("folder_first", [True, False])
def test_a_folder_in_place_of_a_file_changes_nothing(tmp_path: Path, folder_first: bool) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "taken" / "inner").mkdir(parents=True)
    contents = {tmp_path / "old": b"new", tmp_path / "taken": b"2"}
    with pytest.raises(FedreproError, match=r"cannot write .*taken"):
        write_all(dict(reversed(contents.items())) if folder_first else contents)
    assert (tmp_path / "old").read_bytes() == b"old"
    assert entries(tmp_path) == ["old", "taken", "taken/inner"]


FULL_DISK = """
import resource, sys
from pathlib import Path
from fedrepro.errors import FedreproError
from fedrepro.runtime.atomic import write_all
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
folder, sizes = Path(sys.argv[1]), map(int, sys.argv[2:])
try:
    write_all({folder / f"file{i}": b"x" * size for i, size in enumerate(sizes)})
except FedreproError as error:
    print(error)
"""


@pytest.mark.parametrize(("sizes", "culprit"), [((10, 5000), "file1"), ((5000, 10), "file0")])
def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, sizes: tuple[int, int], culprit: str
) -> None:
    (tmp_path / "file0").write_bytes(b"old")
    message = python(FULL_DISK, tmp_path, *map(str, sizes))
    assert entries(tmp_path) == ["file0"]
    assert (tmp_path / "file0").read_bytes() == b"old"
    assert f"cannot write {tmp_path / culprit}:" in message
    assert "Free some space" in message


def test_the_limit_lets_small_files_through(tmp_path: Path) -> None:
    """The same process, below the limit: so that it is the limit that the test above meets."""
    assert python(FULL_DISK, tmp_path, "10", "20") == ""
    assert entries(tmp_path) == ["file0", "file1"]


def test_write_if_changed_keeps_the_time_of_equal_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_if_changed(path, b"one")
    os.utime(path, ns=(10**18, 10**18))
    write_if_changed(path, b"one")
    assert path.stat().st_mtime_ns == 10**18
    write_if_changed(path, b"two")
    assert path.stat().st_mtime_ns != 10**18
    assert path.read_bytes() == b"two"


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big.npy"
    path.write_bytes(b"0123456789")
    sidecar_path(path).write_text(json.dumps(describe(b"0123456789", 5)))
    return path


def test_sidecar_by_hand(big: Path) -> None:
    assert sidecar_path(big).name == "big.npy.json"
    assert json.loads(sidecar_path(big).read_text()) == {
        "bytes": 10,
        "rows": 5,
        "sha256": "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882",
    }
    assert checked(big) == "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"


def test_truncation_is_seen(big: Path) -> None:
    big.write_bytes(b"01234")
    with pytest.raises(FedreproError, match=r"big\.npy does not match its sidecar: 5 bytes, expected 10"):
        checked(big)


def test_changed_bytes_of_equal_length_are_seen(big: Path) -> None:
    big.write_bytes(b"012345678x")
    with pytest.raises(FedreproError, match=r"does not match its sidecar.*Delete it and run snakemake"):
        checked(big)


def test_a_missing_file_or_sidecar_is_named(big: Path) -> None:
    big.unlink()
    with pytest.raises(FedreproError, match=r"big\.npy is missing; run snakemake"):
        checked(big)
    sidecar_path(big).unlink()
    with pytest.raises(FedreproError, match=r"big\.npy\.json is missing; run snakemake"):
        checked(big)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not readable JSON"),
        ("[1]", "does not hold a JSON object"),
        ('{"bytes": 10}', "lacks the key 'sha256'"),
    ],
)
def test_a_damaged_sidecar_says_what_to_do(big: Path, text: str, reason: str) -> None:
    sidecar_path(big).write_text(text)
    with pytest.raises(FedreproError, match=rf"big\.npy\.json.*{reason}.*(rerun|run snakemake again)"):
        checked(big)


def test_a_folder_in_place_of_json_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(FedreproError, match="not readable JSON"):
        read_json(tmp_path)
