"""Reading published formats, and refusing what is damaged or hostile."""

import gzip
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from mlxtend.data import loadlocal_mnist

from fedrepro.core import registry
from fedrepro.core.archives import read_idx, read_tar
from fedrepro.core.job import Context
from fedrepro.errors import FedreproError
from tests.archives import Small, small, tar


def members(path: Path) -> dict[str, bytes]:
    return {str(name): content for name, content in read_tar(path, lambda name: name.suffix == ".png")}


def hostile(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)
    return buffer.getvalue()


def files(folder: Path, stand_in: Small) -> dict[str, Path]:
    for key, content in stand_in.files.items():
        (folder / key).write_bytes(content)
    return {key: folder / key for key in stand_in.files}


def test_wanted_files_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(tar({"./b/2.png": b"two", "./notes.txt": b"", "a/1.png": b"one"}))
    assert members(path) == {"b/2.png": b"two", "a/1.png": b"one"}
    assert list(members(path)) == ["b/2.png", "a/1.png"]


def test_the_share_that_is_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(tar({f"{i}.png": np.random.default_rng(i).bytes(50_000) for i in range(20)}))
    shares: list[float] = []
    assert len(list(read_tar(path, lambda name: True, shares.append))) == 20
    assert shares == sorted(shares) and 0 < shares[0] < 0.3 and shares[-1] == 1


def by_length(content: bytes) -> str:
    """Names of cases: archives hold the time they are made."""
    return f"{len(content)} bytes"


@pytest.mark.parametrize(
    "content",
    [
        hostile("../../etc/passwd.png"),
        hostile("/etc/passwd.png"),
        hostile("a/../../b.png"),
        hostile("train/cat/1.png", tarfile.SYMTYPE, "/etc/passwd"),
        hostile("train/cat/1.png", tarfile.LNKTYPE, "../other"),
        hostile("train/cat/1.png", tarfile.CHRTYPE),
        hostile("train/cat/1.png", tarfile.FIFOTYPE),
    ],
    ids=by_length,
)
def test_a_hostile_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(content)
    with pytest.raises(FedreproError, match=r"bad\.tar\.gz is refused: '.*' is a link or device, or leads"):
        members(path)
    assert [item.name for item in tmp_path.iterdir()] == ["bad.tar.gz"]


@pytest.mark.parametrize("cut", [0, 1, 30, 200, -5])
def test_a_damaged_tar_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(tar({"1.png": np.random.default_rng(1).bytes(5000)})[:cut])
    with pytest.raises(FedreproError, match=r"bad\.tar\.gz is not a readable \.tar\.gz"):
        members(path)


def test_idx_agrees_with_another_reader(tmp_path: Path) -> None:
    paths = files(tmp_path, small("mnist"))
    for split in ("train", "test"):
        for kind in ("images", "labels"):
            (tmp_path / kind).write_bytes(gzip.decompress(paths[f"{split}_{kind}"].read_bytes()))
        images, labels = loadlocal_mnist(str(tmp_path / "images"), str(tmp_path / "labels"))
        assert (read_idx(paths[f"{split}_images"]).reshape(len(labels), -1) == images).all()
        assert (read_idx(paths[f"{split}_labels"]) == labels).all()


IDX = gzip.decompress(small("mnist").files["test_labels"])


@pytest.mark.parametrize(
    "content",
    [
        b"", b"text", gzip.compress(b""), gzip.compress(b"text"), gzip.compress(IDX[:-1]),
        gzip.compress(IDX + b"1"), gzip.compress(b"\0\0\x0d" + IDX[3:]), gzip.compress(IDX)[:-9],
        gzip.compress(IDX[:6]), gzip.compress(IDX[:4]), gzip.compress(b"\0\0\x08\0"),
    ],
    ids=by_length,
)  # fmt: skip
def test_a_damaged_idx_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.gz").write_bytes(content)
    with pytest.raises(FedreproError, match=r"bad\.gz is not (a readable gzip|an IDX) file"):
        read_idx(tmp_path / "bad.gz")


class Exploit:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("code was run",))


@pytest.mark.parametrize(
    "batch",
    [pickle.dumps(Exploit(), 2), pickle.dumps({b"data": 1}, 2), b"", pickle.dumps({b"labels": []}, 2)],
    ids=by_length,
)
def test_a_batch_of_cifar10_runs_no_code(
    tmp_path: Path, batch: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar({"cifar-10-batches-py/data_batch_1": batch}))
    with pytest.raises(FedreproError, match=r"cifar\.tar\.gz holds a batch that cannot be read"):
        registry.load("dataset", "cifar10").load({"archive": path}, Context())
    assert capsys.readouterr().out == ""


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar({"notes": b""}))
    with pytest.raises(FedreproError, match=r"cifar\.tar\.gz lacks data_batch_1, .*test_batch"):
        registry.load("dataset", "cifar10").load({"archive": path}, Context())


@pytest.mark.parametrize("threads", [1, 2])
def test_cinic10_is_the_same_with_more_processes(tmp_path: Path, threads: int) -> None:
    stand_in = small("cinic10")
    found = registry.load("dataset", "cinic10").load(files(tmp_path, stand_in), Context(threads=threads))
    for split, (images, labels) in stand_in.splits.items():
        assert (found[split][0] == images).all() and (found[split][1] == labels).all()


@pytest.mark.parametrize("content", [b"no picture", b""])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_damaged_picture_is_named(tmp_path: Path, threads: int, content: bytes) -> None:
    path = tmp_path / "cinic.tar.gz"
    path.write_bytes(tar({"train/frog/x.png": content}))
    with pytest.raises(FedreproError, match=r"cinic\.tar\.gz: frog/x\.png is not a PNG of 32 x 32"):
        registry.load("dataset", "cinic10").load({"archive": path}, Context(threads=threads))


def test_more_images_than_published_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = registry.load("dataset", "cinic10")
    monkeypatch.setattr(module, "IMAGES", 39)
    with pytest.raises(FedreproError, match="holds more than 39 images of t"):
        module.load(files(tmp_path, small("cinic10")), Context())
