"""Whether a SLURM cluster will take the jobs of a plan: what would make them wait for ever or run twice."""

import math
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedrepro.errors import FedreproError
from fedrepro.plan.config import read_yaml
from fedrepro.plan.cost import LIMIT, Costs, read_costs
from fedrepro.plan.messages import likely
from fedrepro.plan.plan import Plan
from fedrepro.plan.status import to_run

RULES = {"train": "cell_train", "scalar": "cell_scalar"}  # kinds of cell that are SLURM jobs
PARTITION_FORMAT = "%R|%a|%l|%G|%m"
JOB_FORMAT = "%i|%T|%j|%Z|%k"
POLLS_SEEN = 3  # the executor wants a finished job to be visible for three of its first polls


class Group(NamedTuple):
    """Nodes of a partition that are alike: state, time limit in minutes, GRES, memory of a node in MB."""

    partition: str
    up: bool
    minutes: float
    gres: str
    memory_mb: int


class Live(NamedTuple):
    """A job of this workflow that is in the queue, running or not."""

    job: str
    state: str
    comment: str


def check(plan: Plan, profile: Path) -> str:
    """What was found, where all is well.

    Parameters
    ----------
    plan : Plan
        Those of its cells that the report needs and that are not done are looked at.
    profile : Path
        Folder of a Snakemake profile, with partition, GPU model and the prefix of job names.

    Raises
    ------
    FedreproError
        One line for everything that stands in the way, with what to do.
    """
    settings = read_yaml(profile / "config.yaml")
    groups = partitions(_ask("sinfo", f"--format={PARTITION_FORMAT}"))
    costs, attempts = read_costs(plan.out), int(settings.get("retries", 0)) + 1
    faults, found = [], []
    left = to_run(plan)
    for kind, rule in RULES.items():
        cells = [cell for cell in left if plan.cells[cell].step == kind]
        if cells:
            wanted = resources(settings, rule)
            own = [group for group in groups if group.partition == wanted.get("slurm_partition")]
            wrong = _partition_faults(rule, wanted, groups, own, gpu=kind == "train")
            wrong = wrong or _size_faults(rule, own, cells, costs, attempts)
            faults += wrong
            if not wrong:
                minutes = max(costs.minutes(cell, 1) for cell in cells)
                found.append(
                    f"{rule}: {len(cells)} jobs of up to {minutes} minutes, partition {own[0].partition}"
                )
    faults += _polling_faults(settings)
    prefix = str(settings.get("slurm-jobname-prefix", ""))
    jobs = live(_ask("squeue", "--me", f"--format={JOB_FORMAT}"), prefix, Path.cwd())
    if jobs:
        lines = "".join(f"\n  job {job.job} {job.state}: {job.comment}" for job in jobs)
        faults.append(
            f"{len(jobs)} jobs of an earlier run of this workflow are in the queue, and a new run would "
            f"start their cells a second time.{lines}\nWait until they are done, or end them with: scancel "
            + " ".join(job.job for job in jobs)
        )
    if faults:
        raise FedreproError("\n".join(faults))
    return "\n".join([*found, "no job of an earlier run is in the queue"])


def resources(settings: Mapping[str, Any], rule: str) -> dict[str, Any]:
    """Resources that a profile gives a rule."""
    return dict(settings.get("default-resources") or {}) | dict(
        (settings.get("set-resources") or {}).get(rule, {})
    )


def partitions(lines: Sequence[str]) -> list[Group]:
    """What sinfo says, in `PARTITION_FORMAT`."""
    found = []
    for line in lines:
        name, up, limit, gres, memory = line.split("|")
        found.append(Group(name, up == "up", limit_minutes(limit), gres, int(memory.rstrip("+"))))
    return found


def limit_minutes(text: str) -> float:
    """A time limit as SLURM writes it, ``[days-][hours:]minutes:seconds`` or ``infinite``, in minutes."""
    if not re.fullmatch(r"(\d+-)?(\d+:)?\d+:\d+", text):
        return math.inf
    days, _, clock = text.rpartition("-")
    hours, minutes, seconds = ([0] + [int(part) for part in clock.split(":")])[-3:]
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60


def live(lines: Sequence[str], prefix: str, folder: Path) -> list[Live]:
    """Jobs in squeue's `JOB_FORMAT` that a Snakemake in this folder has submitted."""
    found = []
    for line in lines:
        job, state, name, where, comment = line.split("|", 4)
        if name.startswith(f"{prefix}_") and Path(where).resolve() == folder.resolve():
            found.append(Live(job, state, comment))
    return found


def _partition_faults(
    rule: str, wanted: Mapping[str, Any], groups: Sequence[Group], own: Sequence[Group], *, gpu: bool
) -> list[str]:
    name, model = wanted.get("slurm_partition"), wanted.get("gpu_model")
    names = {group.partition for group in groups}
    if not own:
        return [f"{rule}: slurm_partition {name!r} does not exist here{likely(str(name), names)}"]
    if not any(group.up for group in own):
        return [f"{rule}: partition {name} is down; use another one, or wait"]
    if gpu and not any(re.search(rf"\bgpu:{model or ''}", group.gres) for group in own):
        has = ", ".join(sorted({group.gres for group in own}))
        what = f"GPU of model {model!r}" if model else "GPU"
        return [f"{rule}: partition {name} has no {what} (its GRES: {has}), so the jobs would wait for ever"]
    return []


def _size_faults(
    rule: str, own: Sequence[Group], cells: Sequence[str], costs: Costs, attempts: int
) -> list[str]:
    faults = []
    limit, memory = max(group.minutes for group in own), max(group.memory_mb for group in own)
    longest = max(costs.minutes(cell, attempts) for cell in cells)
    if longest > limit:
        faults.append(
            f"{rule}: jobs ask for up to {longest} minutes in {attempts} attempts, but partition "
            f"{own[0].partition} allows {limit:.0f}, and they would wait for ever. Set {LIMIT}={limit:.0f}: "
            "a training cell that needs longer goes on from its checkpoint"
        )
    largest = max(costs.memory_mb(cell, 1) for cell in cells)
    if largest > memory:
        faults.append(
            f"{rule}: jobs ask for up to {largest} MB, but no node of partition {own[0].partition} has more "
            f"than {memory}; use another partition"
        )
    return faults


def _polling_faults(settings: Mapping[str, Any]) -> list[str]:
    """Finished jobs must stay visible in squeue until Snakemake has asked for them."""
    if settings.get("slurm-status-command") != "squeue":
        return []
    said = re.search(r"^MinJobAge\s*=\s*(\d+)", "\n".join(_ask("scontrol", "show", "config")), flags=re.M)
    needed = POLLS_SEEN * int(settings.get("slurm-init-seconds-before-status-checks", 40))
    if said is None or int(said[1]) >= needed:
        return []
    return [
        f"this cluster forgets a finished job after {said[1]} s (MinJobAge), too early for the profile; set "
        f"slurm-init-seconds-before-status-checks to {int(said[1]) // POLLS_SEEN} or less"
    ]


def _ask(program: str, *arguments: str) -> list[str]:
    """Lines that a SLURM command prints."""
    if shutil.which(program) is None:
        raise FedreproError(
            f"{program} is not here; run `fedrepro cluster check` on a login node of the cluster"
        )
    quiet = [] if program == "scontrol" else ["--noheader"]
    done = subprocess.run([program, *quiet, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FedreproError(f"{program} fails, so the cluster does not answer: {done.stderr.strip()}")
    return [line for line in done.stdout.splitlines() if line.strip()]
