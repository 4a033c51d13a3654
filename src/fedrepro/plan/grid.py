"""Grids of experiments: a block is written once with the paper's values, and scaled per tier.

Precedence inside a block, later wins: ``set``, ``by`` (values that depend on another field), ``axes``, the
reading, ``scale.<tier>.set``. Each of them stands first in the paper's ``defaults`` of the kind, then in the
block. A reading is written once in ``readings``; a block that lists several has every cell once for each.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from fedrepro.core import registry
from fedrepro.core.spec import CELL_KINDS, AnalysisSpec, GameSpec, ScalarSpec, TrainSpec, canonical
from fedrepro.errors import FedreproError
from fedrepro.plan.cards import card
from fedrepro.plan.config import Config, Strict, Tier, merge, read_yaml
from fedrepro.plan.games import check_game
from fedrepro.plan.messages import explain, unknown
from fedrepro.provenance.header import header

Kind = Literal["train", "scalar", "game", "analysis"]
Tree = dict[str, Any]
ADAPTERS: dict[Kind, TypeAdapter[Any]] = {
    "train": TypeAdapter(TrainSpec),
    "scalar": TypeAdapter(ScalarSpec),
    "game": TypeAdapter(GameSpec),
    "analysis": TypeAdapter(AnalysisSpec),
}


class Scale(Strict):
    """What a tier replaces: values, axes, readings, seeds, and data sets (those not named are dropped)."""

    set: Tree = Field(default_factory=dict)
    axes: dict[str, list[Any]] = Field(default_factory=dict)
    datasets: dict[str, str] = Field(default_factory=dict)
    readings: list[str] = Field(default_factory=list)
    seeds: Literal["all", "first"] | None = None


class Values(Strict):
    """Values, and values that depend on another field."""

    set: Tree = Field(default_factory=dict)
    by: dict[str, dict[str, Tree]] = Field(default_factory=dict)


class Defaults(Values):
    """Values shared by all experiments of one kind."""

    scale: dict[Tier, Scale] = Field(default_factory=dict)


class Experiment(Defaults):
    """One block of the grid: a named set of cells."""

    kind: Kind
    where: str = Field(description="Where the paper states the parameters.")
    axes: dict[str, list[Any]] = Field(default_factory=dict)
    readings: list[str] = Field(default_factory=list, description="The first is the headline.")
    seeds: Literal["all", "first"] = "all"


class PaperCard(Strict):
    """The paper a grid reproduces."""

    title: str
    authors: str


class Grid(Strict):
    """``config/papers/<paper>/grid.yaml``."""

    paper: PaperCard
    readings: dict[str, Values] = Field(
        default_factory=dict,
        description="What each reading replaces, where a paper's text and its released code disagree.",
    )
    defaults: dict[Kind, Defaults] = Field(default_factory=dict)
    experiments: dict[str, Experiment]


@dataclass(frozen=True)
class Entry:
    """One cell of an experiment, and what it is there.

    ``canonical``: canonical form of ``spec``; ``paper_dataset``: the paper's data set that this one stands
    for; ``reading``: how the paper was read, where the block says so. Two entries may be the same cell.
    """

    spec: Any
    canonical: Tree
    paper_dataset: str | None
    reading: str | None


def load_grid(path: Path) -> Grid:
    """Read and validate a grid file."""
    try:
        grid = Grid.model_validate_json(json.dumps(read_yaml(path), default=str))
    except ValidationError as error:
        raise explain(error, str(path), Grid) from error
    layers: dict[str, Defaults] = {f"defaults.{kind}": layer for kind, layer in grid.defaults.items()}
    for name, block in grid.experiments.items():
        layers[f"experiments.{name}"] = block
        _check_readings(path, f"experiments.{name}.readings", block.readings, grid)
    for where, layer in layers.items():
        for tier, scale in layer.scale.items():
            _check_readings(path, f"{where}.scale.{tier}.readings", scale.readings, grid)
    return grid


def _check_readings(path: Path, key: str, names: Sequence[str], grid: Grid) -> None:
    for number, name in enumerate(names):
        if name not in grid.readings:
            raise unknown(f"{path}: key {key!r}", "reading", name, grid.readings)
        if name in names[:number]:
            raise FedreproError(f"{path}: key {key!r}: {name!r} stands there more than once")


def expand(path: Path, grid: Grid, name: str, config: Config, tier: Tier | None) -> list[Entry]:
    """All cells of one experiment, in the order of its readings and axes, seeds innermost.

    ``tier=None`` expands the block as written, which is the paper's own table.
    """
    experiment = grid.experiments[name]
    layers = [grid.defaults.get(experiment.kind, Defaults()), experiment]
    scales = [layer.scale[tier] for layer in layers if tier in layer.scale]
    where = f"{path}: experiments.{name}"
    axes = dict(experiment.axes)
    readings: Sequence[str | None] = experiment.readings
    for scale in scales:
        axes |= scale.axes
        readings = scale.readings or readings
    for axis, values in axes.items():
        if not values:
            raise FedreproError(f"{where}: axes.{axis} is an empty list, so the grid has no cells")
    datasets = {old: new for scale in scales for old, new in scale.datasets.items()}
    chosen = [experiment.seeds, *(scale.seeds for scale in scales if scale.seeds)][-1]
    seeds = config.seeds[:1] if chosen == "first" else config.seeds
    entries = []
    for reading, *point in itertools.product(readings or (None,), *axes.values()):
        tree = _tree(
            layers, grid.readings[reading] if reading else None, scales, dict(zip(axes, point, strict=True))
        )
        if experiment.kind == "train":
            tree = merge({"evaluation": canonical(config.evaluation)}, tree)
        written = tree.get("dataset")
        if datasets and written is not None:
            if written not in datasets:
                continue
            tree["dataset"] = datasets[written]
        text = json.dumps({"kind": experiment.kind} | tree | {"seed": 0}, default=str)
        spec, form = _spec(where, experiment.kind, text)
        if tier is not None and getattr(spec, "dataset", None) is not None:
            _check_data(where, spec)
        entries += [
            Entry(replace(spec, seed=seed), form | {"seed": seed}, written, reading) for seed in seeds
        ]
    return [entry for entry in entries if _selected(entry.spec, config)]


def _tree(layers: Sequence[Defaults], reading: Values | None, scales: Sequence[Scale], point: Tree) -> Tree:
    base: Tree = {}
    for layer in layers:
        base = merge(base, layer.set)
    named = merge(base, point)
    for layer in layers:
        base = _merge_by(base, layer, named)
    tree = merge(base, point)
    if reading:
        tree = {key: _mapping(key, value) for key, value in tree.items()}
        tree = _merge_by(merge(tree, reading.set), reading, named)
    for scale in scales:
        tree = merge(tree, scale.set)
    return tree


def _merge_by(tree: Tree, layer: Values, named: Tree) -> Tree:
    for field, table in layer.by.items():
        tree = merge(tree, table.get(_label(named.get(field)), {}))
    return tree


def _mapping(key: str, value: Any) -> Any:
    """A plugin named alone as a mapping, so that a parameter can be merged into it."""
    plugin = key in registry.FOLDERS and key != "dataset"
    return {"name": value} if plugin and isinstance(value, str) else value


def _label(value: Any) -> str:
    return str(value["name"]) if isinstance(value, Mapping) else str(value)


@cache
def _spec(where: str, kind: Kind, text: str) -> tuple[Any, Tree]:
    """A checked specification and its canonical form; a plan asks for it again for the paper's own table."""
    tree = json.loads(text)
    cls = CELL_KINDS[kind]
    choices = {item.name for item in fields(cls) if item.name in registry.FOLDERS} - {"dataset"}
    prepared = {key: _choice(where, key, value) if key in choices else value for key, value in tree.items()}
    try:
        spec = ADAPTERS[kind].validate_json(json.dumps(prepared, default=str))
    except ValidationError as error:
        raise explain(error, where, cls) from error
    if kind == "analysis":
        _check_needs(where, spec)
    if kind == "scalar":
        _check_sampled(where, spec)
    if kind != "scalar":
        check_game(where, spec)
    return spec, canonical(spec)


def _check_needs(where: str, spec: Any) -> None:
    """An analysis says in ``NEEDS`` which fields it uses: all of them must be there, and no other."""
    needs = set(header("analysis", spec.analysis.name).constant("NEEDS", ()))
    given = set(canonical(spec)) - {"kind", "analysis", "seed"}
    if needs != given:
        raise FedreproError(
            f"{where}: analysis {spec.analysis.name!r} needs {sorted(needs)}, but the block sets "
            f"{sorted(given)}"
        )


def _check_sampled(where: str, spec: Any) -> None:
    clients = header("problem", spec.problem.name).constant("CLIENTS")
    if spec.sampled > clients:
        raise FedreproError(
            f"{where}: key 'sampled': {spec.sampled} clients cannot be sampled from the {clients} of problem "
            f"{spec.problem.name}; use at most {clients}"
        )


def _choice(where: str, kind: str, value: Any) -> Tree:
    """A plugin choice in its canonical form, its parameters checked against the plugin's ``Params``."""
    params = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = params.pop("name", None)
    return {"name": name, "params": _params(where, kind, str(name), json.dumps(params, default=str))}


@cache
def _names(kind: str) -> list[str]:
    return registry.names(kind)


@cache
def _adapter(cls: type) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


@cache
def _params(where: str, kind: str, name: str, text: str) -> Tree:
    if name not in _names(kind):
        raise unknown(f"{where}: key {kind!r}", kind, name, _names(kind))
    cls = header(kind, name).params()
    try:
        return canonical(_adapter(cls).validate_json(text))
    except ValidationError as error:
        raise explain(error, f"{where}: {kind} {name}", cls) from error


def _check_data(where: str, spec: Any) -> None:
    if spec.dataset not in _names("dataset"):
        raise unknown(f"{where}: key 'dataset'", "data set", spec.dataset, _names("dataset"))
    samples = card(spec.dataset).samples["train"]
    if spec.partition is not None and spec.partition.clients > samples:
        raise FedreproError(
            f"{where}: key 'partition.clients': {spec.partition.clients} clients are more than the "
            f"{samples} training images of {spec.dataset}; use at most {samples}"
        )
    if spec.partition is not None:
        _check_partition(where, spec)


def _check_partition(where: str, spec: Any) -> None:
    """Groups fit the clients and classes, and no two parts of a partition contradict each other."""
    chosen = spec.partition
    classes = header("dataset", spec.dataset).constant("CLASSES")
    common = math.gcd(chosen.clients, classes)
    if common % chosen.groups:
        allowed = ", ".join(str(n) for n in range(1, common + 1) if common % n == 0)
        raise FedreproError(
            f"{where}: key 'partition.groups': {chosen.groups} groups do not divide both the "
            f"{chosen.clients} clients and the {classes} classes of {spec.dataset}; use one of {allowed}"
        )
    if chosen.assignment != "dirichlet" and chosen.groups > 1:
        raise FedreproError(
            f"{where}: key 'partition.groups': {chosen.groups} groups are not defined for assignment "
            f"{chosen.assignment!r}, which ignores classes; use 1 group, or assignment 'dirichlet'"
        )
    _check_sizes(where, spec)
    if chosen.streams == "legacy" and (chosen.groups > 1 or chosen.assignment != "dirichlet"):
        raise FedreproError(
            f"{where}: key 'partition.streams': 'legacy' is not defined for assignment "
            f"{chosen.assignment!r} with {chosen.groups} groups, the released code has only 'dirichlet' with "
            "1 group; use those, or streams 'keyed'"
        )
    if (
        chosen.streams == "legacy"
        and spec.dynamics
        and header("dynamics", spec.dynamics.name).defines("draw")
    ):
        raise FedreproError(
            f"{where}: key 'partition.streams': 'legacy' is not defined for dynamics {spec.dynamics.name}, "
            "whose clients are not independent; use streams 'keyed'"
        )


def _check_sizes(where: str, spec: Any) -> None:
    """Sizes stand there exactly where they are used, one a client, and use every image once."""
    chosen = spec.partition
    if chosen.assignment != "sized":
        if chosen.sizes:
            raise FedreproError(
                f"{where}: key 'partition.sizes' is not used by assignment {chosen.assignment!r}; leave "
                "it out, or use assignment 'sized'"
            )
        return
    samples = card(spec.dataset).samples["train"]
    if len(chosen.sizes) != chosen.clients or sum(chosen.sizes) != samples:
        raise FedreproError(
            f"{where}: key 'partition.sizes': {len(chosen.sizes)} sizes with sum {sum(chosen.sizes)}; give "
            f"one for each of the {chosen.clients} clients, with sum {samples}, the training images of "
            f"{spec.dataset}"
        )


def _selected(spec: Any, config: Config) -> bool:
    only = config.only
    algorithm = spec.algorithm.name if spec.kind == "train" else None
    return (
        (not only.datasets or getattr(spec, "dataset", None) in (None, *only.datasets))
        and (not only.algorithms or algorithm in (None, *only.algorithms))
        and (not only.seeds or spec.seed in only.seeds)
    )
