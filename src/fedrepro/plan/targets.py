"""Figures and tables: what their files say of themselves, and those that a plan can make."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal

from fedrepro.core import registry
from fedrepro.errors import FedreproError
from fedrepro.plan.builder import digest
from fedrepro.plan.grid import Grid
from fedrepro.plan.messages import unknown
from fedrepro.provenance.header import header
from fedrepro.provenance.identity import dumps


@dataclass(frozen=True)
class Declared:
    """What the file of a figure or table says of itself.

    ``needs``: the experiments it is made from; ``reference``: whose published numbers it shows; ``where``:
    its own place in the paper, where it is not that of its experiments; ``on_demand``: made only when it is
    asked for by name.
    """

    kind: Literal["figure", "table"]
    paper: str
    needs: tuple[str, ...]
    reference: str
    where: str
    on_demand: bool


@dataclass(frozen=True)
class Target(Declared):
    """A figure or table of a plan; ``code``: digest of what makes it."""

    name: str
    code: str

    def outputs(self, out: str) -> dict[str, str]:
        """Files of the target by suffix."""
        suffixes = ("pdf", "png", "csv") if self.kind == "figure" else ("csv", "md", "tex", "html")
        return {suffix: f"{out}/{self.kind}s/{self.name}.{suffix}" for suffix in suffixes}

    @property
    def spec(self) -> str:
        """Canonical JSON of what the target is made from."""
        return dumps({"target": self.name, "needs": self.needs})


def declared_targets(papers: Mapping[str, Grid]) -> dict[str, Declared]:
    """The figures and tables there are; each needs experiments of its own paper."""
    out = {}
    kinds: tuple[Literal["figure", "table"], ...] = ("figure", "table")
    names = [name for kind in kinds for name in registry.names(kind)]
    for kind in kinds:
        for name in registry.names(kind):
            facts = header(kind, name)
            paper, needs = facts.constant("PAPER"), tuple(facts.constant("NEEDS", ()))
            if name != f"{paper}_{facts.constant('ID')}" or paper not in papers or not needs:
                raise FedreproError(
                    f"{facts.path}: PAPER, ID and NEEDS must be literals, the file must be named "
                    f"<PAPER>_<ID>.py, and PAPER must be one of {', '.join(papers)}"
                )
            known = {f"{paper}_{experiment}" for experiment in papers[paper].experiments}
            for need in needs:
                if need not in known:
                    raise unknown(f"{facts.path}: NEEDS", "experiment", need, known)
            reference, where = facts.constant("REFERENCE", ""), facts.constant("WHERE", "")
            if reference and f"{paper}_{reference}" not in names:
                raise unknown(f"{facts.path}: REFERENCE", "target", f"{paper}_{reference}", names)
            on_demand = facts.constant("ON_DEMAND", False)
            out[name] = Declared(kind, paper, needs, reference, where, on_demand)
    return out


def selected_targets(experiments: Container[str], declared: Mapping[str, Declared]) -> dict[str, Target]:
    """Those whose experiments are all selected."""
    targets = {}
    for name, facts in declared.items():
        if all(need in experiments for need in facts.needs):
            entry = (f"fedrepro.outputs.{facts.kind}", registry.module_name(facts.kind, name))
            targets[name] = Target(**vars(facts), name=name, code=digest(entry))
    return targets
