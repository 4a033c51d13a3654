"""Published files: what tells the right one from any other."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

UNKNOWN = "unknown"
BLOCK = 2**20  # bytes


class Published(NamedTuple):
    """Size in bytes and checksum, ``md5:...``, ``sha256:...`` or ``unknown``, of a published file."""

    size: int
    checksum: str


class Digest:
    """Size, checksum and SHA-256 of a file that is being read or written."""

    def __init__(self, checksum: str):
        self.size = 0
        self._kind = checksum.partition(":")[0]
        names = {"sha256"} if self._kind == UNKNOWN else {"sha256", self._kind}
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in names}

    def update(self, block: bytes) -> None:
        """Take one more block of the file."""
        self.size += len(block)
        for item in self._hashes.values():
            item.update(block)

    def fault(self, published: Published) -> str:
        """Why this is not the published file; nothing where it is."""
        if self.size != published.size:
            return f"{self.size:,} bytes instead of {published.size:,}"
        if published.checksum == UNKNOWN:
            return ""
        found = f"{self._kind}:{self._hashes[self._kind].hexdigest()}"
        return "" if found == published.checksum else f"{found} instead of {published.checksum}"

    def sidecar(self) -> dict[str, Any]:
        """What the file's sidecar says."""
        return {"bytes": self.size, "sha256": self._hashes["sha256"].hexdigest()}


def digest(path: Path, checksum: str) -> Digest:
    """The digest of a whole file."""
    found = Digest(checksum)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found
