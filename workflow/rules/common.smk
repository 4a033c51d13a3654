# The plan, and the few helpers that turn it into inputs and params.
import gc
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# What planning makes is there to stay, and looking for garbage in it takes a fifth of the time. Off until jobs start.
gc.disable()

ROOT = Path(workflow.basedir)
if Path.cwd().resolve() != ROOT.resolve():
    raise WorkflowError(f"run snakemake in the workflow's own folder, {ROOT}")
sys.path.insert(0, str(ROOT / "src"))

from fedrepro.errors import FedreproError
from fedrepro.plan.cards import DATA
from fedrepro.plan.collected import check_collected
from fedrepro.plan.cost import read_costs
from fedrepro.plan.kept import kept_plan
from fedrepro.forks import announce

# Jobs run the workflow's own code with the Python that runs Snakemake; neither is part of a command. Those of this
# Snakemake itself, not of a cluster, may share imported libraries.
SHARED = f"FEDREPRO_RUN={shlex.quote(announce())}" if workflow.is_main_process else ""
shell.prefix(
    "set -euo pipefail; "
    f"export PATH={shlex.quote(sys.prefix)}/bin:$PATH "
    f"PYTHONPATH={shlex.quote(str(ROOT / 'src'))} FEDREPRO_WORKFLOW={shlex.quote(str(ROOT))} {SHARED}; "
)

try:
    PLAN = kept_plan(ROOT, config, map(Path, workflow.config_settings.configfiles))
    PLAN.write_experiments()
    if PLAN.config.missing == "collected":
        check_collected(PLAN)
    COSTS = read_costs(PLAN.out)
except FedreproError as error:
    raise WorkflowError(str(error)) from None

OUT = PLAN.out
REPORT = f"{OUT}/report/index.html"


wildcard_constraints:
    dataset="[a-z0-9_]+",
    partition="[a-z0-9_-]+",
    trace="[a-z0-9_-]+",
    experiment="[a-z0-9_]+",


def by_sidecar(inputs):
    """Big files, which count by the sidecar of the last: it is written anew whenever one of the others is."""
    named = {name: ancient(path) for name, path in inputs.items()}
    last = [*inputs.values()][-1:]
    return named | {"sidecar": f"{path}.json" for path in last}


def pairs(inputs):
    """``name=path`` words for the command line."""
    return [f"{name}={path}" for name, path in inputs.items()]


def memory_mb(wildcards, attempt):
    """Memory to ask a cluster for; on one machine nothing limits it."""
    return COSTS.memory_mb(wildcards.cell, attempt)


def minutes(wildcards, attempt):
    """Run time to ask a cluster for."""
    return COSTS.minutes(wildcards.cell, attempt)


def manifests(wildcards):
    """All cells of an experiment; none with missing=show, where collect takes what there is."""
    if PLAN.config.missing == "show":
        return []
    return expand(
        f"{OUT}/cells/{{cell}}/manifest.json",
        cell=PLAN.experiments[wildcards.experiment].cells,
    )


def collected(target):
    """The collected experiments of a target, with sidecars."""
    return [f"{OUT}/collected/{name}.parquet" for name in target.needs]


def caption(target):
    """Caption file of a figure or table, for Snakemake's own report."""
    return f"../report/{target.name}.rst"
