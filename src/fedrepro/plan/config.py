"""The configuration: typed here, its defaults and schema written from here.

Precedence: defaults, then the tier's file, then what the user gives (``--configfile``, ``--config``).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fedrepro.core.spec import Evaluation
from fedrepro.errors import FedreproError
from fedrepro.plan.messages import explain

Seed = Annotated[int, Field(ge=0)]
Tier = Literal["tiny", "demo", "paper", "decide"]
COMMAND_LINE = "--config"
TIERS: tuple[Tier, ...] = ("tiny", "demo", "paper", "decide")


class Strict(BaseModel):
    """No unknown keys, no conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Only(Strict):
    """A subset of the work; an empty list selects everything."""

    papers: list[str] = Field([], description="Short names of papers, e.g. [fedswe].")
    datasets: list[str] = Field([], description="Data sets that are really used, e.g. [mnist5k].")
    algorithms: list[str] = Field([], description="Algorithms, e.g. [fedswe, fedavg_active].")
    seeds: list[Seed] = Field([], description="A subset of the configured seeds.")


class Config(Strict):
    """Everything a user can set that is about science; machines belong in profiles."""

    tier: Tier = Field(
        "demo",
        description="tiny: every target once, in seconds. demo: embedded data, a laptop, minutes. "
        "paper: the papers' own sizes, hours. decide: of those, what 3 seeds cannot decide, with 11.",
    )
    seeds: list[Seed] = Field([3, 4, 6], description="Seeds of the repetitions, all different.", min_length=1)
    evaluation: Evaluation = Field(
        Evaluation(test_every=20, train_every=100, final_rounds=50, final_every=2),
        description="When runs are evaluated, in completed rounds: every `test_every` rounds on the "
        "test set, every `train_every` on the training set, and both every `final_every` within the "
        "last `final_rounds`, which is the window that tables average over.",
    )
    missing: Literal["refuse", "show", "collected"] = Field(
        "refuse",
        description="refuse: a table or figure needs all its cells. show: train nothing, use the "
        "cells that exist, and say on every output how many are missing. collected: train and collect "
        "nothing, use collected/ as it is; no cell need be there.",
    )
    mixed_environments: Literal["refuse", "allow"] = Field(
        "refuse",
        description="Whether one experiment and seed may mix results of different software or "
        "hardware. allow marks the rows.",
    )
    only: Only = Field(Only(), description="A subset of the work; empty lists select everything.")

    @field_validator("seeds")
    @classmethod
    def _different(cls, seeds: list[int]) -> list[int]:
        repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
        if repeated:
            raise ValueError(f"seeds must be different, but {repeated} stand there more than once")
        return seeds


def merge(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge; a mapping with the key ``name`` (a plugin choice) and any other value replaces."""
    out = dict(base)
    for key, value in extra.items():
        old = out.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and "name" not in value:
            value = merge(old, value)
        out[key] = value
    return out


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping."""
    try:
        with path.open() as file:
            value: Any = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except FileNotFoundError as error:
        raise FedreproError(f"{path} is missing") from error
    except yaml.YAMLError as error:
        raise FedreproError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(value, dict):
        raise FedreproError(f"{path} must hold a mapping of keys to values")
    return value


def load(root: Path, user: Mapping[str, Any], sources: Sequence[Path] = ()) -> Config:
    """Merge and validate the configuration.

    Parameters
    ----------
    root : Path
        The workflow's folder, with ``config/``.
    user : mapping
        What the user gave, already merged from ``--configfile`` and ``--config``.
    sources : sequence of Path
        The user's config files, only to say where a mistake stands.
    """
    for key, value in user.items():
        if _source(key, sources) == COMMAND_LINE and str(value).lstrip().startswith(("[", "{")):
            raise FedreproError(
                f"{COMMAND_LINE}: key {key!r}: {value!r} is not allowed. Lists and mappings cannot be given "
                "on the command line; write them to a YAML file and give it with --configfile"
            )
    defaults_file = root / "config" / "config.yaml"
    defaults = read_yaml(defaults_file)
    _validate({}, defaults, str(defaults_file))
    tier = str(user.get("tier", defaults["tier"]))
    if tier not in TIERS:
        raise FedreproError(
            f"{_source('tier', sources)}: key 'tier': {tier!r} is not allowed. Use one of {', '.join(TIERS)}"
        )
    tier_file = root / "config" / "tiers" / f"{tier}.yaml"
    base = merge(defaults, read_yaml(tier_file))
    _validate({}, base, str(tier_file))
    where = ", ".join(_source(key, sources) for key in user) if user else str(defaults_file)
    return _validate(base, user, " and ".join(dict.fromkeys(where.split(", "))))


def _validate(base: Mapping[str, Any], extra: Mapping[str, Any], where: str) -> Config:
    try:
        return Config.model_validate_json(json.dumps(merge(base, extra), default=str))
    except ValidationError as error:
        raise explain(error, where, Config) from error


def _source(key: str, sources: Sequence[Path]) -> str:
    for path in sources:
        if key in read_yaml(path):
            return str(path)
    return COMMAND_LINE
