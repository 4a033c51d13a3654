"""Loading a plan for the command line, and listing it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fedrepro.errors import FedreproError
from fedrepro.plan.config import merge, read_yaml
from fedrepro.plan.kept import kept_plan
from fedrepro.plan.plan import Plan


def load(root: Path, pairs: Sequence[str], files: Sequence[Path]) -> Plan:
    """The plan under the same ``--config`` and ``--configfile`` that Snakemake takes.

    Raises
    ------
    FedreproError
        If the command stands in a workflow other than the one ``fedrepro`` was installed from.
    """
    here = Path.cwd()
    if (here / "src" / "fedrepro").is_dir() and here.resolve() != root.resolve():
        raise FedreproError(
            f"fedrepro was imported from {root}, but this folder is another copy of the workflow; "
            "run `make install` here, or put ./src first on PYTHONPATH"
        )
    user: dict[str, Any] = {}
    for file in files:
        user = merge(user, read_yaml(file))
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise FedreproError(f"--config {pair!r} is not of the form KEY=VALUE")
        user[key] = yaml.safe_load(value)
    return kept_plan(root, user, files)


def print_list(plan: Plan) -> None:
    """Experiments with their cells, then targets, then what the plugins are."""
    from fedrepro.core import registry

    print(f"tier {plan.config.tier}: {len(plan.cells)} cells, seeds {plan.config.seeds}")
    print(f"\n{'experiment':<28}{'cells':>6}  {'kind':<10}where")
    for experiment in plan.experiments.values():
        kind = plan.cells[experiment.cells[0]].step
        print(f"{experiment.name:<28}{len(experiment.cells):>6}  {kind:<10}{experiment.where}")
    print(f"\n{'target':<28}{'kind':<8}made from")
    for target in plan.targets.values():
        asked = "  (on demand)" if target.on_demand else ""
        print(f"{target.name:<28}{target.kind:<8}{', '.join(target.needs)}{asked}")
    print("\nplugins")
    for kind, folder in registry.FOLDERS.items():
        if kind not in ("figure", "table"):
            print(f"  {folder:<12}{', '.join(registry.names(kind))}")
