"""Downloading a published file: several sources, resumed, retried and verified; whole or absent."""

import fcntl
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fedrepro import __version__
from fedrepro.errors import FedreproError
from fedrepro.provenance.archives import BLOCK, Digest, Published, digest
from fedrepro.runtime.meter import meter

TRY_LATER = {408, 425, 429}  # HTTP statuses below 500 that may pass
READ_ONLY = 0o444


@dataclass(frozen=True)
class Patience:
    """When to give up."""

    timeout: float = 30.0  # seconds without a byte
    rounds: int = 4  # over all sources, in a row without progress
    pause: float = 1.0  # seconds before the second round, doubled with every further one


class UnsuitableError(Exception):
    """A source that does not have the file; asking again is no use."""


class InterruptionError(Exception):
    """A source that failed, but may do better next time."""


def download(
    target: Path, published: Published, sources: Sequence[str], patience: Patience = Patience()
) -> Digest:
    """Get a published file from the first source that has it.

    What arrives is kept in ``<target>.part`` until it is whole, so that the next call goes on from there,
    from whichever source. A target that is there already is used if it is the published file; otherwise it
    counts as a part.

    Parameters
    ----------
    target : Path
        Where the file goes; it is made read-only.
    published : Published
        What tells the right file.
    sources : sequence of str
        URLs, in the order in which they are tried.
    patience : Patience
        When to give up.

    Raises
    ------
    FedreproError
        If no source has the published file, or if it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        if target.exists():
            found = digest(target, published.checksum)
            if not (fault := found.fault(published)):
                return found
            print(f"{target} is not the published file ({fault}); it is replaced")
            target.chmod(0o644)
            target.replace(part)
        with part.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if target.exists():  # another process was faster
                return digest(target, published.checksum)
            arrived = _Part(file, published)
            _get(arrived, target, sources, patience)
            part.replace(target)
            target.chmod(READ_ONLY)
            return arrived.digest
    except OSError as error:
        raise FedreproError(
            f"cannot write {target}: {error.strerror or error}; free some space or make the folder writable, "
            "then run again: it goes on where it stopped"
        ) from error


class _Part:
    """The file that grows, and the digest of what it holds."""

    def __init__(self, file: BinaryIO, published: Published):
        self.file, self.published = file, published
        self.digest, self.furthest = Digest(published.checksum), 0
        self.file.seek(0)
        while block := self.file.read(BLOCK):
            self.digest.update(block)
        self.furthest = self.digest.size

    def append(self, block: bytes) -> None:
        self.file.write(block)
        self.digest.update(block)
        self.furthest = max(self.furthest, self.digest.size)

    def reset(self) -> None:
        self.file.truncate(0)
        self.digest = Digest(self.published.checksum)

    def whole(self) -> str:
        """Why it is not the published file, though it has the size; such a part is emptied."""
        if fault := self.digest.fault(self.published):
            self.reset()
            return fault
        self.file.flush()
        os.fsync(self.file.fileno())
        return ""


def _get(part: _Part, target: Path, sources: Sequence[str], patience: Patience) -> None:
    if part.digest.size >= part.published.size and not part.whole():
        return
    waiting, reasons = list(sources), dict[str, str]()
    failures = 0
    with meter(f"download {target.name}") as observe:
        while waiting and failures < patience.rounds:
            if failures:
                time.sleep(patience.pause * 2 ** (failures - 1))
            furthest = part.furthest
            for url in tuple(waiting):
                try:
                    resumed = _transfer(url, part, patience.timeout, observe)
                except UnsuitableError as error:
                    waiting.remove(url)
                    reasons[url] = str(error)
                except InterruptionError as error:
                    reasons[url] = str(error)
                else:
                    if not (fault := part.whole()):
                        return
                    reasons[url] = f"its file is not the published one, {fault}"
                    if not resumed:  # else the fault may lie in what was there before
                        waiting.remove(url)
            failures = 0 if part.furthest > furthest else failures + 1
    tried = "".join(f"\n  {url}: {reason}" for url, reason in reasons.items())
    raise FedreproError(
        f"cannot download {target.name}; tried{tried}\n"
        f"Without a network, put the file ({part.published.size:,} bytes, {part.published.checksum}) at "
        f"{target}, or set FEDREPRO_DATA to a folder that has it as {target.parent.name}/{target.name}, "
        "or FEDREPRO_MIRROR to the URL of such a folder; then run again"
    )


def _transfer(url: str, part: _Part, timeout: float, observe: Callable[[float], None]) -> bool:
    """Append what is missing to the part; returns whether something was there before."""
    offset, size = part.digest.size, part.published.size
    headers = {"User-Agent": f"fedrepro/{__version__}"} | ({"Range": f"bytes={offset}-"} if offset else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if offset and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.reset()
        elif error.code < 500 and error.code not in TRY_LATER:
            raise UnsuitableError(f"HTTP {error.code} {error.reason}") from error
        raise InterruptionError(f"HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise InterruptionError(_reason(error)) from error
    with response:
        if offset and getattr(response, "status", None) != http.HTTPStatus.PARTIAL_CONTENT:
            part.reset()  # the source starts from the beginning
            offset = 0
        length = response.headers.get("Content-Length")
        if length is not None and int(length) != size - offset:
            raise UnsuitableError(f"offers {int(length):,} bytes instead of {size - offset:,}")
        while block := _read(response):
            part.append(block)
            observe(min(part.digest.size / size, 1.0))
            if part.digest.size > size:
                part.reset()
                raise UnsuitableError(f"sends more than {size:,} bytes")
    if part.digest.size < size:
        raise InterruptionError(f"broke off after {part.digest.size:,} of {size:,} bytes")
    return offset > 0


def _read(response: Any) -> bytes:
    try:
        return response.read1(BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise InterruptionError(_reason(error)) from error


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)
