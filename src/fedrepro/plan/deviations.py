"""Where we do something else than a paper says: ``config/papers/<paper>/deviations.yaml``."""

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedrepro.errors import FedreproError
from fedrepro.plan.config import Strict, read_yaml
from fedrepro.plan.messages import explain


class Deviation(Strict):
    """One entry of the ledger; ``affects`` names targets, ``symbol`` the code, ``switch`` the setting."""

    where: str
    paper_says: str
    we_do: str
    why: str
    effect: str
    affects: list[str]
    symbol: str
    switch: str = ""


def load_deviations(path: Path) -> dict[str, Deviation]:
    """Read and validate a ledger, by id."""
    kind = dict[str, Deviation]
    try:
        return TypeAdapter(kind).validate_json(json.dumps(read_yaml(path), default=str))
    except ValidationError as error:
        raise explain(error, str(path), kind) from error


def check_affects(path: Path, known: set[str]) -> dict[str, Deviation]:
    """A ledger whose entries name only targets that exist."""
    ledger = load_deviations(path)
    for name, deviation in ledger.items():
        for target in deviation.affects:
            if target not in known:
                raise FedreproError(
                    f"{path}: {name}.affects: unknown target {target!r}; known: {', '.join(sorted(known))}"
                )
    return ledger
