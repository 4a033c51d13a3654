"""Raw archives: getting what a plan needs, and saying what is there."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fedrepro.core import registry
from fedrepro.plan.cards import DATA, RemoteFile, card, raw_files
from fedrepro.plan.messages import unknown
from fedrepro.plan.plan import Plan
from fedrepro.provenance.archives import Published, digest
from fedrepro.provenance.files import sidecar_path
from fedrepro.provenance.identity import dumps
from fedrepro.runtime.atomic import write_if_changed
from fedrepro.runtime.download import download
from fedrepro.runtime.sources import sources


class Raw(NamedTuple):
    """A raw file of a data set, and where it belongs."""

    dataset: str
    file: RemoteFile
    path: Path

    @property
    def published(self) -> Published:
        """What tells the right file."""
        return Published(self.file.bytes, self.file.checksum)


def raw(datasets: Iterable[str]) -> Iterator[Raw]:
    """The raw files of some data sets."""
    for dataset in datasets:
        files = card(dataset).files
        for key, path in raw_files(dataset).items():
            yield Raw(dataset, files[key], Path(path))


def fetch_file(dataset: str, name: str) -> None:
    """Download one file of a data set, or accept the one that lies there, and write its sidecar."""
    for item in raw([_known(dataset)]):
        if item.file.name == name:
            _fetch(item)
            return
    raise unknown(f"data set {dataset}", "file", name, (item.file.name for item in raw([dataset])))


def fetch(plan: Plan, datasets: Iterable[str]) -> None:
    """Download all that the named data sets need, or else all that the plan needs."""
    wanted = list(raw(map(_known, datasets) if datasets else plan.datasets))
    for item in wanted:
        _fetch(item)
        print(f"{item.path}  {item.file.bytes / 1e6:.1f} MB")
    if not wanted:
        print(f"nothing to download for {', '.join(datasets or plan.datasets)}")


def print_status(plan: Plan) -> None:
    """Per data set of the plan: whether it is prepared, and the state of its raw files."""
    for dataset in plan.datasets:
        made = all(Path(DATA, dataset, f"{split}.npy").exists() for split in ("train", "test"))
        print(f"{dataset:<16}{card(dataset).title}, {'prepared' if made else 'not prepared'}")
        for item in raw([dataset]):
            print(f"  {item.path}  {item.file.bytes / 1e6:.1f} MB  {_state(item)}")


def _known(dataset: str) -> str:
    if dataset not in registry.names("dataset"):
        raise unknown("data fetch", "data set", dataset, registry.names("dataset"))
    return dataset


def _fetch(item: Raw) -> None:
    found = download(item.path, item.published, sources(item.dataset, item.file.name, item.file.urls))
    if item.file.checksum == "unknown":
        print(f"{item.path}: no checksum is published; SHA-256 {found.sidecar()['sha256']}")
    write_if_changed(sidecar_path(item.path), (dumps(found.sidecar()) + "\n").encode())


def _state(item: Raw) -> str:
    part = item.path.with_name(f"{item.path.name}.part")
    if item.path.exists():
        fault = digest(item.path, item.file.checksum).fault(item.published)
        return f"wrong: {fault}" if fault else "verified"
    return f"{part.stat().st_size / item.file.bytes:.0%} there" if part.exists() else "missing"
