"""Canonical JSON and the ids derived from it (``docs/identity.md``)."""

import hashlib
import json
from typing import Any

from fedrepro.core.spec import Choice, canonical

HASH_LENGTH = 12
ID_FIELDS = ("dataset", "problem", "game", "dynamics", "algorithm", "analysis")


def canonical_json(spec: Any) -> str:
    """The canonical JSON text of a specification: neutral fields left out, keys sorted, no spaces."""
    return dumps(canonical(spec))


def dumps(value: Any) -> str:
    """Canonical JSON of plain values; NaN and infinity are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def job_id(seed: int, text: str, *words: str | None) -> str:
    """``<words>-s<seed>-<hash12>``: readable words, then the hash of the canonical JSON, which decides."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
    return "-".join([*filter(None, words), f"s{seed}", digest])


def cell_id(spec: Any, text: str | None = None) -> str:
    """Id of a cell, ``<kind>-<data set or problem>-<game>-<dynamics>-<algorithm>-s<seed>-<hash12>``.

    Parts that a cell does not have are left out; an analysis stands in the place of an algorithm. ``text``:
    the canonical JSON, where it is known.
    """
    parts = [getattr(spec, name, None) for name in ID_FIELDS]
    words = [part.name if isinstance(part, Choice) else part for part in parts]
    return job_id(spec.seed, canonical_json(spec) if text is None else text, spec.kind, *words)
