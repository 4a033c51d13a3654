"""The plan of the last start, kept beside Snakemake's own records: where nothing changed, none is made.

A plan follows from the configuration and from the files of the package and of ``config/``. A kept plan is
used only while their hash is the one that it was made with.
"""

import hashlib
import pickle
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pydantic

from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.errors import FedreproError
from fedrepro.plan.plan import Plan, make_plan
from fedrepro.runtime.atomic import write_all

FOLDER = ".snakemake/fedrepro"
SUFFIXES = (".py", ".yaml", ".csv")


def kept_plan(root: Path, user: Mapping[str, Any], sources: Iterable[Path] = ()) -> Plan:
    """The plan of `make_plan`, from the last start with this configuration if it is still true.

    Raises
    ------
    FedreproError
        As `make_plan` does; what cannot be kept is made again the next time.
    """
    sources = list(sources)
    asked = repr((user, sources))
    path = root / FOLDER / f"{hashlib.sha256(asked.encode()).hexdigest()[:12]}.plan"
    key = _key(root, asked)
    plan = _read(path, key)
    if plan is None:
        plan = make_plan(root, user, sources)
        content = pickle.dumps(plan, pickle.HIGHEST_PROTOCOL)
        with suppress(FedreproError):
            write_all({path: key + hashlib.sha256(content).digest() + content})
    return plan


def _key(root: Path, asked: str) -> bytes:
    """Hash of everything that a plan is made from."""
    found = hashlib.sha256(f"{sys.version} {pydantic.VERSION} {asked}".encode())
    for folder in (root / "config", PACKAGE_ROOT):
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                content = path.read_bytes()
                found.update(f"{path.relative_to(folder)} {len(content)} ".encode() + content)
    return found.digest()


def _read(path: Path, key: bytes) -> Plan | None:
    """A kept plan with this key; none if it is absent, out of date or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    size = len(key)
    head, digest, body = content[:size], content[size : 2 * size], content[2 * size :]
    if head != key or digest != hashlib.sha256(body).digest():
        return None
    plan: Plan = pickle.loads(body)
    return plan
