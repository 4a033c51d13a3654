"""Small archives in the exact formats of the published ones, and a web server that has its moods."""

import gzip
import hashlib
import io
import struct
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from fedrepro.core.archives import Splits
from fedrepro.datasets.cinic10 import NAMES
from fedrepro.plan.cards import card

Images = NDArray[np.uint8]
PER_CLASS = {"train": 12, "test": 4}
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
PACKED_AT = {"train": 1504176606, "t10k": 1504176627}  # times in the headers of the published gzip files


def splits(shape: tuple[int, int, int], seed: int = 1) -> Splits:
    """Random images, classes in turn so that the order of a file shows."""
    rng = np.random.default_rng(seed)
    found = {}
    for split, number in PER_CLASS.items():
        images = rng.integers(0, 256, (10 * number, *shape), dtype=np.uint8)
        found[split] = (images, np.arange(10 * number, dtype=np.uint8) % 10)
    return found


def by_class(content: Splits) -> Splits:
    """The same images, ordered by class."""
    ordered = {split: labels.argsort(kind="stable") for split, (_, labels) in content.items()}
    return {split: (content[split][0][order], content[split][1][order]) for split, order in ordered.items()}


def svhn(content: Splits) -> dict[str, bytes]:
    """MATLAB files: X of shape (32, 32, 3, N), y of shape (N, 1), the digit 0 as class 10."""
    files = {}
    for split, (images, labels) in content.items():
        buffer = io.BytesIO()
        digits = np.where(labels == 0, 10, labels).astype(np.uint8)
        savemat(buffer, {"X": images.transpose(1, 2, 3, 0), "y": digits[:, None]}, do_compression=True)
        files[split] = buffer.getvalue()
    return files


def cifar10(content: Splits) -> dict[str, bytes]:
    """A .tar.gz of pickles, five training batches and one of tests, as Python 2 wrote them."""
    members = {"batches.meta": b"not read"}
    images, labels = content["train"]
    for number, rows in enumerate(np.array_split(np.arange(len(labels)), 5), start=1):
        members[f"data_batch_{number}"] = python2_batch(images[rows], labels[rows])
    members["test_batch"] = python2_batch(*content["test"])
    return {"archive": tar({f"cifar-10-batches-py/{name}": data for name, data in members.items()})}


def python2_batch(images: Images, labels: Images) -> bytes:
    """Protocol 2 of a ``cPickle`` under Python 2: byte strings, and an array of NumPy 1."""
    rows = images.transpose(0, 3, 1, 2).reshape(len(images), -1)

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    def integer(value: int) -> bytes:
        return b"M" + struct.pack("<H", value)

    listed = b"](" + b"".join(b"K" + bytes([int(label)]) for label in labels) + b"e"
    array = b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\x00\x85" + text(b"b")
    array += b"\x87R" + b"(K\x01" + integer(rows.shape[0]) + integer(rows.shape[1]) + b"\x86"
    array += b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R" + b"(K\x03" + text(b"|") + b"NNN"
    array += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb" + b"\x89"
    array += b"T" + struct.pack("<i", rows.size) + rows.tobytes() + b"tb"
    entries = text(b"batch_label") + text(b"a batch") + text(b"labels") + listed + text(b"data") + array
    return b"\x80\x02}(" + entries + b"u."


def cinic10(content: Splits) -> dict[str, bytes]:
    """A .tar.gz of PNGs in no order, with the third split and other files beside them."""
    members = {"./README.md": b"text", "./synsets-to-cifar-10-classes.txt": b"text"}
    for split, (images, labels) in content.items():
        for index, (image, label) in enumerate(zip(images, labels, strict=True)):
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "PNG")
            members[f"./{split}/{NAMES[label]}/n{index:05}.png"] = buffer.getvalue()
            members[f"./valid/{NAMES[label]}/n{index:05}.png"] = b"never read"
    names = np.random.default_rng(2).permutation(sorted(members))
    return {"archive": tar({str(name): members[str(name)] for name in names})}


def idx(content: Splits) -> dict[str, bytes]:
    """Gzipped IDX files, with the name and time that gzip puts into the header."""
    files = {}
    for split, (images, labels) in content.items():
        for kind, array in {"images": images[..., 0], "labels": labels}.items():
            header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            buffer = io.BytesIO()
            with gzip.GzipFile(f"{split}-{kind}", "wb", fileobj=buffer, mtime=1) as file:
                file.write(header + array.tobytes())
            files[f"{split}_{kind}"] = buffer.getvalue()
    return files


def tar(members: Mapping[str, bytes]) -> bytes:
    """A .tar.gz with its folders."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        folder = tarfile.TarInfo("./valid")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    return buffer.getvalue()


@dataclass(frozen=True)
class Small:
    """A small stand-in for a data set: its files by key, and the splits it must give."""

    files: dict[str, bytes]
    splits: Splits


def small(dataset: str, seed: int = 1) -> Small:
    """A stand-in for a data set that is downloaded. A new data set needs a line here."""
    grey, colour = splits((28, 28, 1), seed), splits((32, 32, 3), seed)
    made = {
        "svhn": lambda: Small(svhn(colour), colour),
        "cifar10": lambda: Small(cifar10(colour), colour),
        "cinic10": lambda: Small(cinic10(colour), by_class(colour)),
        "mnist": lambda: Small(idx(grey), grey),
        "fashion_mnist": lambda: Small(idx(grey), grey),
    }
    return made[dataset]()


def write_card(path: Path, dataset: str, stand_in: Small, base: str) -> None:
    """The shipped card with the counts, sizes, checksums and URLs of a stand-in."""
    facts: dict[str, Any] = card(dataset).model_dump(exclude={"sha256"})
    facts["counts"] = {split: [number] * 10 for split, number in PER_CLASS.items()}
    for key, data in stand_in.files.items():
        file = facts["files"][key]
        file |= {"bytes": len(data), "checksum": f"md5:{hashlib.md5(data).hexdigest()}"}
        file["urls"] = [f"{base}/{dataset}/{file['name']}"]
    path.write_text(yaml.safe_dump(facts))


def published_fashion_mnist(folder: Path) -> Path:
    """The published files from Debian's, which differ in the header of gzip only: no name, no time."""
    made = folder / "fashion_mnist"
    made.mkdir(parents=True)
    for source in DEBIAN.glob("*.gz"):
        data, name = source.read_bytes(), source.stem
        time_ = struct.pack("<I", PACKED_AT[name.split("-")[0]])
        (made / source.name).write_bytes(
            data[:3] + b"\x08" + time_ + data[8:10] + name.encode() + b"\0" + data[10:]
        )
    return folder


@dataclass
class Host:
    """A web server's files and moods, by path; what it was asked for is kept."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    moods: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    piece: int = 1000  # bytes that a bad mood lets through

    def offer(self, dataset: str, files: Mapping[str, bytes]) -> None:
        """Offer the files of a data set under their published names."""
        for key, data in files.items():
            self.files[f"/{dataset}/{card(dataset).files[key].name}"] = data


@contextmanager
def serve() -> Iterator[Host]:
    """A server on 127.0.0.1. Moods: ``cut``, ``stall``, ``slow``, ``rangeless``, ``html``, or a status."""
    host, closing = Host(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            host.asked.append((self.path, wanted))
            mood, data = host.moods.get(self.path, ""), host.files.get(self.path)
            if data is None or mood.isdigit():
                self.send_error(404 if data is None else int(mood))
                return
            if mood == "html":
                data, wanted = b"<html>Log in first</html>", None
            start = int(wanted[6:-1]) if wanted and mood != "rangeless" else 0
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self._send(data[start:], mood)

        def _send(self, data: bytes, mood: str) -> None:
            if mood in ("cut", "stall"):
                self.wfile.write(data[: host.piece])
                self.wfile.flush()
                if mood == "stall":
                    closing.wait(20)
                self.close_connection = True
                return
            for start in range(0, len(data), host.piece if mood == "slow" else len(data)):
                self.wfile.write(data[start : start + host.piece] if mood == "slow" else data)
                if mood == "slow":
                    time.sleep(0.01)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield host
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
