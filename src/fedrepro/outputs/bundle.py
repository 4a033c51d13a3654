"""A bundle: all results of a tier but metrics, checkpoints and data, in one archive with checksums."""

import gzip
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedrepro.errors import FedreproError
from fedrepro.plan.plan import Plan
from fedrepro.runtime.atomic import write_all

FOLDERS = ("collected", "figures", "tables", "claims", "report", "exports", "plan")
CRATE = "ro-crate-metadata.json"
SUMS = "SHA256SUMS"
LOCK = "requirements.lock"


def bundle_path(plan: Plan) -> Path:
    """Where the bundle of a plan's tier is written."""
    return Path(plan.out, f"bundle-{plan.config.tier}.tar.gz")


def make_bundle(plan: Plan, root: Path) -> Path:
    """Write the bundle of a tier; the same results give the same bytes. Returns its path.

    It holds the folders `FOLDERS`, the RO-Crate where it was exported, the manifests of the plan's cells, the
    lock of the environment and, as ``SHA256SUMS``, the SHA-256 of each file, all under ``results/<tier>/``.

    Raises
    ------
    FedreproError
        If the report of the tier has not been made.
    """
    folder = Path(plan.out)
    if not (folder / "report" / "index.html").exists():
        raise FedreproError(
            f"{folder}/report/index.html is missing: a bundle holds finished results. "
            f"Run snakemake -c2 --config tier={plan.config.tier} first"
        )
    paths = [path for name in FOLDERS for path in (folder / name).rglob("*") if path.is_file()]
    paths += folder.glob(CRATE)
    paths += [folder / "cells" / cell / "manifest.json" for cell in plan.existing(plan.cells)]
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in paths
        if not path.name.startswith(".")  # temporary files of a job that is writing
    }
    files[LOCK] = (root / "envs" / LOCK).read_bytes()
    files[SUMS] = "".join(f"{_sha256(files[name])}  {name}\n" for name in sorted(files)).encode()
    out = bundle_path(plan)
    write_all({out: _archive({f"{folder.as_posix()}/{name}": content for name, content in files.items()})})
    return out


@contextmanager
def results(path: Path) -> Iterator[Path]:
    """The folder with the results of a tier: the given one, or a bundle unpacked for the time being.

    Raises
    ------
    FedreproError
        If there is neither a folder with ``collected/`` nor an intact bundle.
    """
    if (path / "collected").is_dir():
        yield path
    elif path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            yield _unpack(path, Path(folder))
    else:
        raise FedreproError(
            f"{path} holds no results: give a folder results/<tier> with collected/ in it, or a bundle "
            "that `fedrepro bundle` wrote"
        )


def _unpack(path: Path, folder: Path) -> Path:
    try:
        with tarfile.open(path, "r:gz") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise FedreproError(f"{path} is not a readable bundle ({error}); make or copy it again") from error
    found = list(folder.glob(f"results/*/{SUMS}"))
    if len(found) != 1:
        raise FedreproError(f"{path} is not a bundle: it has no results/<tier>/{SUMS}")
    for line in found[0].read_text().splitlines():
        expected, _, name = line.partition("  ")
        file = found[0].parent / name
        if not file.is_file() or _sha256(file.read_bytes()) != expected:
            raise FedreproError(f"{path}: {name} does not match {SUMS}; make or copy the bundle again")
    return found[0].parent


def _archive(files: Mapping[str, bytes]) -> bytes:
    """A compressed archive without times, owners or the order of a folder."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(files[name]), 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    return out.getvalue()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
