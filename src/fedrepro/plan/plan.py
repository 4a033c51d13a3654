"""The plan: every cell, shared input, experiment and target of a tier, with paths and identities.

It is made while Snakemake parses the workflow, so nothing here imports torch, pandas or a plugin.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fedrepro.core import registry
from fedrepro.errors import FedreproError
from fedrepro.plan.builder import Builder, Job, digest
from fedrepro.plan.claims import Claim, check_claims, load_claims
from fedrepro.plan.config import Config, load
from fedrepro.plan.grid import Grid, expand, load_grid
from fedrepro.plan.messages import unknown
from fedrepro.plan.reference import check_reference
from fedrepro.plan.targets import Target, declared_targets, selected_targets
from fedrepro.provenance.identity import dumps
from fedrepro.runtime.atomic import write_if_changed

STEPS = ("collect", "claims", "report", "exports")  # that come after cells, beside figures and tables


class Member(NamedTuple):
    """A cell of an experiment, with its labels there (`fedrepro.plan.grid.Entry`)."""

    cell: str
    paper_dataset: str | None
    reading: str | None


@dataclass(frozen=True)
class Experiment:
    """A block of a paper's grid: its cells in order, and whether all are at the paper's own scale."""

    name: str
    paper: str
    where: str
    members: tuple[Member, ...]
    published: bool

    @property
    def cells(self) -> list[str]:
        """Ids of the cells; one that has several labels stands there once."""
        return list(dict.fromkeys(member.cell for member in self.members))


@dataclass(frozen=True)
class Plan:
    """Everything the workflow's rules look up. ``codes``: digests of the code of `STEPS`."""

    config: Config
    datasets: Mapping[str, Job]
    partitions: Mapping[str, Job]
    traces: Mapping[str, Job]
    cells: Mapping[str, Job]
    experiments: Mapping[str, Experiment]
    targets: Mapping[str, Target]
    papers: Mapping[str, Grid]
    claims: Mapping[str, Mapping[str, Claim]]
    codes: Mapping[str, str]

    @property
    def out(self) -> str:
        """Results folder of the tier, relative to the working directory."""
        return f"results/{self.config.tier}"

    @property
    def reported(self) -> dict[str, Target]:
        """Targets that the report shows: all but those on demand."""
        return {name: target for name, target in self.targets.items() if not target.on_demand}

    @property
    def reported_experiments(self) -> list[str]:
        """Experiments that the report shows: all but those that only targets on demand are made from."""
        shown = {need for target in self.reported.values() for need in target.needs}
        asked = {need for target in self.targets.values() for need in target.needs} - shown
        return [name for name in self.experiments if name not in asked]

    @property
    def reported_cells(self) -> list[str]:
        """Cells of what the report shows."""
        needed = {cell for name in self.reported_experiments for cell in self.experiments[name].cells}
        return [cell for cell in self.cells if cell in needed]

    @property
    def papers_in_use(self) -> list[str]:
        """Papers with a target or a claim."""
        return sorted({target.paper for target in self.targets.values()} | set(self.claims))

    @property
    def deviations(self) -> list[str]:
        """The deviation ledgers of the papers in use."""
        return [path for paper in self.papers_in_use for path in self._of_paper(paper, "deviations.yaml")]

    def claim_needs(self, paper: str) -> list[str]:
        """Experiments of the plan that a paper's claims need."""
        needs = {f"{paper}_{need}" for claim in self.claims[paper].values() for need in claim.needs}
        return [name for name in self.reported_experiments if name in needs]

    def claim_files(self, paper: str) -> list[str]:
        """Files of a paper that decide its claims, beside what is collected."""
        names = ("claims.yaml", "reference.csv", "deviations.yaml")
        return [path for name in names for path in self._of_paper(paper, name)]

    @staticmethod
    def _of_paper(paper: str, name: str) -> list[str]:
        path = f"config/papers/{paper}/{name}"
        return [path] if Path(path).exists() else []

    @property
    def report_spec(self) -> str:
        """Canonical JSON of what the report shows."""
        papers = {
            name: {
                "title": self.papers[name].paper.title,
                "authors": self.papers[name].paper.authors,
            }
            for name in self.papers_in_use
        }
        targets = [
            {"name": t.name, "kind": t.kind, "paper": t.paper, "needs": t.needs, "where": t.where}
            for t in self.reported.values()
        ]
        return dumps(
            {
                "tier": self.config.tier,
                "papers": papers,
                "targets": targets,
                "claims": sorted(self.claims),
                "experiments": sorted(self.reported_experiments),
                "datasets": sorted(self.datasets),
            }
        )

    def cell_folder(self, cell: str) -> Path:
        """Folder of a cell."""
        return Path(self.out, "cells", cell)

    def existing(self, cells: Iterable[str]) -> list[str]:
        """The cells that have a manifest."""
        return [cell for cell in cells if self.cell_folder(cell).joinpath("manifest.json").exists()]

    def write_experiments(self) -> None:
        """Write ``plan/<experiment>.json``, each only when it changes: what collect checks against."""
        for experiment in self.experiments.values():
            cells = [
                member._asdict()
                | {
                    "canonical": self.cells[member.cell].spec,
                    "code": self.cells[member.cell].code,
                    "inputs": dict(self.cells[member.cell].inputs),
                }
                for member in experiment.members
            ]
            content = {
                "experiment": experiment.name,
                "tier": self.config.tier,
                "where": experiment.where,
                "published": experiment.published,
                "cells": cells,
            }
            path = Path(self.out, "plan", f"{experiment.name}.json")
            write_if_changed(path, (dumps(content) + "\n").encode())

    def collect_spec(self, experiment: str) -> str:
        """Canonical JSON of how an experiment is collected; with ``missing=show``, of what there is."""
        config = self.config
        spec: dict[str, Any] = {"missing": config.missing, "mixed": config.mixed_environments}
        if config.missing == "show":
            spec["present"] = {
                cell: hashlib.sha256((self.cell_folder(cell) / "manifest.json").read_bytes()).hexdigest()
                for cell in self.existing(self.experiments[experiment].cells)
            }
        return dumps(spec)


def make_plan(root: Path, user: Mapping[str, Any], sources: Iterable[Path] = ()) -> Plan:
    """Read and check the configuration and all grids, and lay out the work.

    Parameters
    ----------
    root : Path
        The workflow's folder.
    user : mapping
        The user's configuration, as Snakemake merged it.
    sources : iterable of Path
        The user's config files, to say where a mistake stands.
    """
    config = load(root, user, list(sources))
    table_config = load(root, {"tier": "paper"})
    files = {path.parent.name: path for path in sorted(root.glob("config/papers/*/grid.yaml"))}
    _check_only(config, files)
    papers = {name: load_grid(path) for name, path in files.items()}
    declared = declared_targets(papers)
    table_seed = table_config.seeds[0]  # one seed stands for all where a row or a scale is looked up
    one_seed = table_config.model_copy(update={"seeds": [table_seed]})
    builder = Builder(f"results/{config.tier}")
    experiments: dict[str, Experiment] = {}
    for paper, grid in papers.items():
        table = {
            f"{paper}_{name}": expand(files[paper], grid, name, one_seed, None) for name in grid.experiments
        }
        needs = {
            name.removeprefix(f"{paper}_"): facts.needs
            for name, facts in declared.items()
            if facts.paper == paper
        }
        check_reference(
            files[paper].with_name("reference.csv"),
            {name: [entry.spec for entry in entries] for name, entries in table.items()},
            needs,
        )
        at_paper_scale = {dumps(entry.canonical) for entries in table.values() for entry in entries}
        for name, block in grid.experiments.items():
            if config.only.papers and paper not in config.only.papers:
                continue
            entries = expand(files[paper], grid, name, config, config.tier)
            if entries:
                experiments[f"{paper}_{name}"] = Experiment(
                    f"{paper}_{name}",
                    paper,
                    block.where,
                    tuple(Member(builder.cell(e), e.paper_dataset, e.reading) for e in entries),
                    all(
                        dumps(entry.canonical | {"seed": table_seed}) in at_paper_scale
                        for entry in entries
                        if entry.spec.seed == entries[0].spec.seed
                    ),
                )
    if not experiments:
        raise FedreproError("the key 'only' selects no cell of any paper; widen it")
    claims: dict[str, Mapping[str, Claim]] = {}
    for paper, grid in papers.items():
        path = files[paper].with_name("claims.yaml")
        if path.exists() and (not config.only.papers or paper in config.only.papers):
            claims[paper] = load_claims(path)
            check_claims(path, claims[paper], grid.experiments)
    return Plan(
        config, builder.datasets, builder.partitions, builder.traces, builder.cells,
        experiments, selected_targets(experiments, declared), papers, claims,
        {step: digest((f"fedrepro.outputs.{step}",)) for step in STEPS},
    )  # fmt: skip


def _check_only(config: Config, papers: Mapping[str, Path]) -> None:
    known: dict[str, list[Any]] = {
        "papers": list(papers),
        "datasets": registry.names("dataset"),
        "algorithms": registry.names("algorithm"),
        "seeds": config.seeds,
    }
    for key, allowed in known.items():
        for name in getattr(config.only, key):
            if name not in allowed:
                raise unknown(f"key 'only.{key}'", key.rstrip("s"), name, map(str, allowed))
