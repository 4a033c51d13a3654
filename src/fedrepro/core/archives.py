"""Reading the formats in which data sets are published; nothing is ever unpacked onto the disk."""

import gzip
import math
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from fedrepro.errors import FedreproError

BUFFER = 2**20  # bytes
IDX_UINT8 = 8  # type code of unsigned bytes in the IDX format

Splits = dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]


def read_tar(
    archive: Path,
    wanted: Callable[[PurePosixPath], bool],
    observe: Callable[[float], None] = lambda share: None,
) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Path and content of every wanted file of a ``.tar.gz``, read once from front to back.

    Parameters
    ----------
    archive : Path
        The archive.
    wanted : callable
        Says by its path whether a file is read.
    observe : callable
        Is told after every file which share of the archive has been read.

    Raises
    ------
    FedreproError
        If the archive is damaged, or holds a link, a device, or a path that leads out of it.
    """
    size = archive.stat().st_size
    try:
        with (
            archive.open("rb") as file,
            gzip.GzipFile(fileobj=file) as unpacked,  # three times as fast as tarfile's own stream
            tarfile.open(fileobj=unpacked, mode="r:") as tar,
        ):
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep every member until the end
                path = _safe_path(archive, member)
                content = tar.extractfile(member) if member.isfile() and wanted(path) else None
                if content is not None:
                    yield path, content.read()
                observe(file.tell() / size)
            while unpacked.read(BUFFER):  # to the end, where the checksum of gzip is compared
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise FedreproError(f"{archive} is not a readable .tar.gz ({error})") from error


def _safe_path(archive: Path, member: tarfile.TarInfo) -> PurePosixPath:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
        raise FedreproError(
            f"{archive} is refused: {member.name!r} is a link or device, or leads out of the archive, "
            "which no archive of a data set needs"
        )
    return path


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of a gzipped IDX file of unsigned bytes, the format of MNIST.

    The file begins with two zero bytes, a type code and the number of dimensions, then the dimensions as
    big-endian 32-bit integers.
    """
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise FedreproError(f"{path} is not a readable gzip file ({error})") from error
    dimensions = content[3] if content[:3] == bytes([0, 0, IDX_UINT8]) and len(content) > 3 else 0
    header = 4 + 4 * dimensions
    if not 0 < dimensions <= (len(content) - 4) // 4:
        raise FedreproError(f"{path} is not an IDX file of unsigned bytes")
    shape = np.frombuffer(content[4:header], dtype=">u4").tolist()
    if math.prod(shape) != len(content) - header:
        raise FedreproError(f"{path} is not an IDX file of shape {shape}: it has {len(content)} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def read_idx_splits(files: Mapping[str, Path]) -> Splits:
    """Images (N, H, W, 1) and labels (N,) from ``<split>_images`` and ``<split>_labels``."""
    return {
        split: (read_idx(files[f"{split}_images"])[..., np.newaxis], read_idx(files[f"{split}_labels"]))
        for split in ("train", "test")
    }
