"""Turning validation errors into messages a user can act on."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedrepro.errors import FedreproError

REASONS = {
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "missing": "this key is required",
    "missing_argument": "this key is required",
}


def likely(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for a typo, else the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint or ';'} known: {', '.join(names) or 'none'}".replace(";; ", "; ")


def unknown(where: str, what: str, name: object, known: Iterable[str]) -> FedreproError:
    """The error for a name that does not exist."""
    return FedreproError(f"{where}: unknown {what} {name!r}{likely(str(name), known)}")


def explain(error: ValidationError, where: str, validator: Any) -> FedreproError:
    """One line per mistake: where, key, value, what is allowed."""
    lines = [_line(item, where, validator) for item in error.errors(include_url=False)]
    return FedreproError("\n".join(lines))


def _line(item: Any, where: str, validator: Any) -> str:
    path = [str(part) for part in item["loc"]]
    key = ".".join(path)
    value = item["input"]
    kind = item["type"]
    if kind in REASONS:
        if "missing" in kind:
            return f"{where}: key {key!r}: {REASONS[kind]}"
        hint = likely(path[-1], _keys(validator, path[:-1]))
        return f"{where}: {REASONS[kind]} {key!r} (value {value!r}){hint}"
    return f"{where}: key {key!r}: {value!r} is not allowed. {item['msg']}"


def _keys(validator: Any, path: Sequence[str]) -> list[str]:
    """The keys allowed at a place of the JSON schema."""
    schema = TypeAdapter(validator).json_schema()
    node = schema
    for part in path:
        node = _resolve(node, schema)
        node = node.get("properties", {}).get(part) or node.get("additionalProperties") or {}
    return list(_resolve(node, schema).get("properties", {}))


def _resolve(node: Any, schema: Any) -> Any:
    for option in node.get("anyOf", [node]):
        if "$ref" in option:
            return schema["$defs"][option["$ref"].rsplit("/", 1)[1]]
    return node
