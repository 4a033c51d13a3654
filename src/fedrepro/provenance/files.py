"""Hashes of files, and the sidecar ``<file>.json`` that stands for a big file in the workflow."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrepro.errors import FedreproError

HASH_LIMIT = 16 * 2**20  # bytes; above it a reader trusts the size, which is free to check


def describe(content: bytes, rows: int) -> dict[str, Any]:
    """The sidecar of a file: size, rows and SHA-256, nothing that changes from run to run."""
    return {"bytes": len(content), "rows": rows, "sha256": hashlib.sha256(content).hexdigest()}


def sidecar_path(path: Path) -> Path:
    """Path of a file's sidecar."""
    return path.with_name(path.name + ".json")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, with an error that says what to do."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise FedreproError(f"{path} is missing; run snakemake to make it") from error
    except (OSError, ValueError) as error:
        raise FedreproError(f"{path} is not readable JSON ({error}); delete it and rerun") from error
    if not isinstance(value, dict):
        raise FedreproError(f"{path} does not hold a JSON object; delete it and run snakemake again")
    return value


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """A JSON object as results hold it, for people to read; NaN and infinity are refused."""
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def checked(path: Path) -> str:
    """SHA-256 of a big file according to its sidecar, after checking that the file still matches it."""
    sidecar = read_json(sidecar_path(path))
    try:
        size = path.stat().st_size
        fits = size == sidecar["bytes"] and (
            size > HASH_LIMIT or hashlib.sha256(path.read_bytes()).hexdigest() == sidecar["sha256"]
        )
    except FileNotFoundError as error:
        raise FedreproError(f"{path} is missing; run snakemake to make it") from error
    except KeyError as error:
        raise FedreproError(
            f"{sidecar_path(path)} lacks the key {error}; delete it and run snakemake again"
        ) from error
    if not fits:
        raise FedreproError(
            f"{path} does not match its sidecar: {size} bytes, expected {sidecar['bytes']}, or other "
            f"content; it was truncated or changed. Delete it and run snakemake again"
        )
    return str(sidecar["sha256"])
