"""Writing files so that they are either complete or absent."""

import errno
import glob
import os
from collections.abc import Mapping
from pathlib import Path

from fedrepro.errors import FedreproError


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Write several files: all temporary files first, then the renames.

    Raises
    ------
    FedreproError
        If the disk is full or a folder cannot be written; no target is then touched by this call.
    """
    temporary: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary[path] = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            with temporary[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path in contents:  # a rename onto a folder would fail after others have been done
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        for path, source in temporary.items():
            source.replace(path)
    except OSError as error:
        for source in temporary.values():
            if source.parent.is_dir():
                source.unlink(missing_ok=True)
        raise FedreproError(
            f"cannot write {path}: {error.strerror or error}; nothing was changed. "
            "Free some space or make the folder writable, then run again"
        ) from error


def remove_leftovers(path: Path) -> None:
    """Delete what a killed `write_all` left of a file and its sidecar; for the only job that writes them."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        left.unlink(missing_ok=True)


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file only when its content changes, so that its modification time means something."""
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        pass  # absent or unreadable: writing it says why, if it fails
    write_all({path: content})
