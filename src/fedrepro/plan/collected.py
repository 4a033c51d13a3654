"""Whether what is collected is what the plan would collect, for a workflow that has no cells to collect."""

from pathlib import Path

from fedrepro.errors import FedreproError
from fedrepro.plan.plan import Experiment, Plan
from fedrepro.provenance.files import read_json, sidecar_path

MAX_LISTED = 5


def check_collected(plan: Plan) -> None:
    """Check the experiments in ``collected/`` against the plan: the same cells, made by the same code.

    Experiments that are not there are no fault: Snakemake names those that a target needs.

    Raises
    ------
    FedreproError
        If an experiment was collected under another configuration or by other code.
    """
    faults = []
    for experiment in plan.experiments.values():
        table = Path(plan.out, "collected", f"{experiment.name}.parquet")
        if sidecar_path(table).exists():
            faults += _faults(plan, experiment, table)
    if faults:
        shown = faults[:MAX_LISTED]
        more = [f"and {len(faults) - MAX_LISTED} more"] if len(faults) > MAX_LISTED else []
        raise FedreproError(
            "what is collected is not what this workflow would collect:\n  "
            + "\n  ".join([*shown, *more])
            + "\nUse the configuration and the version of the code that it was collected with, or run the "
            "cells again without missing=collected"
        )


def _faults(plan: Plan, experiment: Experiment, table: Path) -> list[str]:
    found = read_json(table.with_suffix(".cells.json"))["cells"]
    cells = set(found) | set(read_json(sidecar_path(table))["missing"])
    other = cells ^ set(experiment.cells)
    if other:
        return [f"{table}: {len(other)} cells differ from the plan's, e.g. {min(other)}"]
    return [
        f"{table}: {cell} was made by other code ({facts['code']}, now {plan.cells[cell].code})"
        for cell, facts in found.items()
        if facts["code"] != plan.cells[cell].code
    ]
