"""The claims of a paper and how each is decided: ``config/papers/<paper>/claims.yaml``."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from fedrepro.errors import FedreproError
from fedrepro.plan.config import Strict, read_yaml
from fedrepro.plan.messages import explain, unknown

TYPES = (
    "value", "order", "gap", "count", "rounds_to", "trend", "bound", "identity", "impossible", "printed",
)  # fmt: skip
By = Literal["arithmetic", "theory", "simulation", "training"]
BY: tuple[By, ...] = ("arithmetic", "theory", "simulation", "training")
IN_FAMILY = ("order", "gap", "trend")  # types whose sampled claims share Holm's correction
PLACEHOLDER = re.compile(r"\{(\w+?)(_value)?\}")


class Test(Strict):
    """A metric with its parameters, and the rule that decides it; a claim holds where all its tests do."""

    metric: dict[str, Any] = Field(description="``name`` of the metric, and its parameters.")
    rule: dict[str, Any] = Field(description="``name`` of the rule, and its margins.")


class Claim(Strict):
    """One claim: either ``tests``, or the ``reason`` why none decides it."""

    where: str = Field(description="Section, figure or table, and line of the paper's text version.")
    says: str = Field(description="The claim in our own words.")
    by: By = Field(description="What decides it.")
    star: bool = Field(False, description="A headline of the paper, shown first.")
    needs: list[str] = Field(default_factory=list, description="Experiments of the paper's grid.")
    tests: list[Test] = Field(default_factory=list)
    reason: str = Field("", description="Why the claim has no test.")
    comparable: bool = Field(True, description="False: no run of ours could stand beside the paper's.")
    beside: list[Literal["peak"]] = Field(
        default_factory=list, description="Accuracies shown beside the final one, without a verdict."
    )
    note: str = Field("", description="How it is read, and what would refute it.")
    deviations: list[str] = Field(default_factory=list, description="Entries of the paper's ledger.")

    @model_validator(mode="after")
    def _decided_or_not(self) -> "Claim":
        if bool(self.tests) == bool(self.reason):
            raise ValueError("a claim has either tests, or a reason why it has none")
        if self.tests and not self.comparable:
            raise ValueError("a claim that is not comparable has a reason and no tests")
        return self


class Row(Strict):
    """A row of the file. ``each``: names and values that stand for ``{name}`` in the id and in the row."""

    each: dict[str, dict[str, Any]] = Field(default_factory=dict)


def kind(claim: str) -> str:
    """Type of a claim, the third part of its id."""
    return claim.split(".")[2]


def load_claims(path: Path) -> dict[str, Claim]:
    """Read and validate the claims of a paper, by id, headlines first.

    A row with ``each`` stands for one claim per combination of its names: ``{name}`` in the id and in texts
    becomes the name, ``{name_value}`` the value beside it, and what is nothing but ``{name}`` that value.

    Raises
    ------
    FedreproError
        If a row is not as it should be; the message names file, claim and key.
    """
    rows = [item for key, row in read_yaml(path).items() for item in _expanded(path, key, row)]
    for number, (key, _) in enumerate(rows):
        if key in dict(rows[:number]):
            raise FedreproError(f"{path}: the claim {key!r} stands there more than once")
    adapter = TypeAdapter(dict[str, Claim])
    try:
        claims = adapter.validate_json(json.dumps(dict(rows), default=str))
    except ValidationError as error:
        raise explain(error, str(path), dict[str, Claim]) from error
    paper = path.parent.name
    for key in claims:
        parts = key.split(".")
        if len(parts) < 4 or parts[0] != paper or not all(parts):
            raise FedreproError(f"{path}: the id {key!r} is not of the form {paper}.<target>.<type>.<what>")
        if parts[2] not in TYPES:
            raise unknown(f"{path}: {key}", "type", parts[2], TYPES)
    return dict(sorted(claims.items(), key=lambda item: not item[1].star))


def check_claims(path: Path, claims: Mapping[str, Claim], experiments: Mapping[str, Any]) -> None:
    """Every experiment that a test needs must be in the paper's grid."""
    for key, claim in claims.items():
        for need in claim.needs if claim.tests else ():
            if need not in experiments:
                raise unknown(f"{path}: {key}.needs", "experiment", need, experiments)


def _expanded(path: Path, key: str, row: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(row, dict) or "each" not in row:
        yield key, row
        return
    try:
        each = Row.model_validate({"each": row["each"]}).each
    except ValidationError as error:
        raise explain(error, f"{path}: {key}", Row) from error
    body = {name: value for name, value in row.items() if name != "each"}
    for chosen in itertools.product(*(table.items() for table in each.values())):
        names = {name: label for name, (label, _) in zip(each, chosen, strict=True)}
        values = {name: value for name, (_, value) in zip(each, chosen, strict=True)}
        yield _filled(key, names, names), _filled(body, names, values)


def _filled(node: Any, names: Mapping[str, str], values: Mapping[str, Any]) -> Any:
    if isinstance(node, dict):
        return {key: _filled(value, names, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, names, values) for value in node]
    if isinstance(node, str):
        whole = PLACEHOLDER.fullmatch(node)
        if whole and whole[1] in values:
            return values[whole[1]]
        return PLACEHOLDER.sub(
            lambda found: str((values if found[2] else names).get(found[1], found[0])), node
        )
    return node
