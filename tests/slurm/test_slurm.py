"""Training cells on a real SLURM: devices, interruptions, failures, and going on to the same bytes."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.conftest import SLURM, SLURM_PYTHON
from tests.workflow.conftest import Workflow, copy_workflow

ROUNDS = 150
TARGET = "results/tiny/collected/fedswe_table2.parquet"
FAILING = "src/fedrepro/algorithms/fedau.py"
BREAK = (
    "    running += 1\n",
    '    if cohort.t == 3:\n        raise RuntimeError("broken in round 3")\n    running += 1\n',
)
OUTAGE = 3  # questions to the queue without an answer
HARMED = ("fedavg_active", "fedavg_all", "mifa")
VARIABLES = {"FEDREPRO_CHECKPOINT_SECONDS": "0.2", "FEDREPRO_MAX_MINUTES": "1"}
RETRIED = (*SLURM, "--retries", "2")


@dataclass
class Outcome:
    """What was seen of a run on the cluster."""

    workflow: Workflow
    straight: Workflow
    code: int = -1
    straight_code: int = -1
    said: str = ""
    harm: dict[str, str] = field(default_factory=dict)
    devices: list[dict[str, str]] = field(default_factory=list)
    refused: int = 0  # questions to the queue that got no answer


def few_cells(workflow: Workflow) -> None:
    """Table 2 with four cells of some seconds."""
    grid = "config/papers/fedswe/grid.yaml"
    tiny = "tiny: {readings: [paper_text], axes: {dynamics: [sine]}}"
    workflow.edit(grid, tiny, tiny[:-1] + f", set: {{rounds: {ROUNDS}}}}}")
    workflow.folder.joinpath("few.yaml").write_text(
        "evaluation: {test_every: 50, train_every: 1000, final_rounds: 0, final_every: 1}\n"
        f"only: {{papers: [fedswe], algorithms: [{', '.join(HARMED)}, fedau]}}\n"
    )
    workflow.folder.joinpath("three.yaml").write_text(
        workflow.folder.joinpath("few.yaml").read_text().replace(", fedau", "")
    )


class Queue:
    """A ``squeue`` that fails during an outage, as if the controller were down, and counts how often."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self._out, self._failures = folder, folder / "outage", folder / "failures"
        command = folder / "squeue"
        command.write_text(
            f"#!/bin/sh\nif [ -e {self._out} ]; then\n  echo failed >>{self._failures}\n"
            "  echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2\n  exit 1\nfi\n"
            f'exec {shutil.which("squeue")} "$@"\n'
        )
        command.chmod(0o755)

    @property
    def refused(self) -> int:
        return len(self._failures.read_text().splitlines()) if self._failures.exists() else 0

    def follow(self, running: bool) -> None:
        """Begin an outage when jobs run, and end it after some questions."""
        if self.refused >= OUTAGE:
            self._out.unlink(missing_ok=True)
        elif running:
            self._out.touch()


def processes(workflow: Workflow) -> Iterator[tuple[str, int, str]]:
    """Algorithm, process id and CUDA_VISIBLE_DEVICES of every cell that runs in a workflow's folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            here = (folder / "cwd").resolve() == workflow.folder.resolve()
            variables = (folder / "environ").read_bytes().decode().split("\0")
        except OSError:
            continue
        if here and words[1:5] == ["-m", "fedrepro", "run", "train"]:
            algorithm = json.loads(words[words.index("--spec") + 1])["algorithm"]["name"]
            devices = [v.partition("=")[2] for v in variables if v.startswith("CUDA_VISIBLE_DEVICES=")]
            yield algorithm, int(folder.name), devices[0] if devices else ""


def job_of(algorithm: str) -> str:
    """Id of the running job that trains with an algorithm."""
    question = ["squeue", "--noheader", "--states=running", "--format=%i %k"]
    jobs = subprocess.run(question, capture_output=True, text=True, check=True).stdout
    return next(line.split()[0] for line in jobs.splitlines() if f"-{algorithm}-" in line)


def harm(algorithm: str, pid: int) -> str:
    """Interrupt a cell: by scancel, by kill -9, or by freezing it until its time is up."""
    if algorithm == "fedavg_active":
        subprocess.run(["scancel", job_of(algorithm)], check=True)
        return "scancel"
    number = signal.SIGKILL if algorithm == "fedavg_all" else signal.SIGSTOP
    os.kill(pid, number)
    return number.name


def has_checkpoint(workflow: Workflow, algorithm: str) -> bool:
    return any(workflow.folder.glob(f"results/tiny/.checkpoints/train-*-{algorithm}-*/round-*.safetensors"))


@pytest.fixture(scope="module")
def outcome(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """The four cells on the cluster, three interrupted once each and one broken; beside it, run straight."""
    folder = tmp_path_factory.mktemp("slurm")
    straight = copy_workflow(folder / "straight")
    few_cells(straight)
    shared = straight.snakemake(TARGET, "-c2", "--until", "trace", "--configfile", "few.yaml")
    assert shared.returncode == 0, shared.stderr
    shutil.copytree(straight.folder, folder / "harmed")
    queue = Queue(folder / "bin")
    path = {"PATH": f"{queue.folder}:{straight.environment['PATH']}"}
    workflow = Workflow(folder / "harmed", VARIABLES | path)
    workflow.edit(FAILING, *BREAK)
    beside = start(
        straight, folder / "straight.txt", "-c1", "--workflow-profile", "none", config="three.yaml"
    )
    run = start(workflow, folder / "harmed.txt", *RETRIED)
    seen = Outcome(workflow, straight)
    limit = time.monotonic() + 300
    while run.poll() is None and time.monotonic() < limit:
        running = list(processes(workflow))
        seen.devices.append({algorithm: device for algorithm, _, device in running})
        queue.follow(bool(running))
        for algorithm, pid, _ in running:
            if algorithm in HARMED and algorithm not in seen.harm and has_checkpoint(workflow, algorithm):
                seen.harm[algorithm] = harm(algorithm, pid)
        time.sleep(0.2)
    for process in (run, beside):
        process.send_signal(signal.SIGINT)  # nothing, where it has ended
    seen.code, seen.straight_code = run.wait(240), beside.wait(240)
    seen.said = (folder / "harmed.txt").read_text()
    seen.refused = queue.refused
    yield seen


def start(
    workflow: Workflow, out: Path, *arguments: str, config: str = "few.yaml"
) -> subprocess.Popen[bytes]:
    """Start Snakemake in its own session, as a signal to its group would reach the jobs of the node."""
    command = [str(SLURM_PYTHON), "-m", "snakemake", *arguments]
    with out.open("wb") as file:
        return subprocess.Popen(
            [*command, "--configfile", config, "--config", "tier=tiny", "--", TARGET],
            cwd=workflow.folder, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env=workflow.environment,
        )  # fmt: skip


def manifest(workflow: Workflow, algorithm: str) -> dict[str, Any]:
    (path,) = workflow.folder.glob(f"results/tiny/cells/train-*-{algorithm}-*/manifest.json")
    return dict(json.loads(path.read_text()))


def metrics(workflow: Workflow, algorithm: str) -> bytes:
    (path,) = workflow.folder.glob(f"results/tiny/cells/train-*-{algorithm}-*/metrics.parquet")
    return path.read_bytes()


def log(workflow: Workflow, algorithm: str) -> str:
    (path,) = workflow.folder.glob(f"results/tiny/logs/cells/train-*-{algorithm}-*.log")
    return path.read_text()


def test_concurrent_jobs_have_a_device_each(outcome: Outcome) -> None:
    together = [seen for seen in outcome.devices if len(seen) > 1]
    assert together
    for seen in together:
        assert set(seen.values()) == {"0", "1"}


@pytest.mark.parametrize("algorithm", HARMED)
def test_an_interrupted_job_goes_on_to_the_same_bytes(outcome: Outcome, algorithm: str) -> None:
    assert outcome.straight_code == 0
    assert outcome.harm[algorithm]
    found = manifest(outcome.workflow, algorithm)
    assert found["attempts"] == 2
    assert {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"} <= set(found["site"])
    assert "going on after round" in log(outcome.workflow, algorithm)
    assert metrics(outcome.workflow, algorithm) == metrics(outcome.straight, algorithm)


def test_a_queue_that_does_not_answer_for_a_while_harms_nothing(outcome: Outcome) -> None:
    assert outcome.refused >= OUTAGE
    assert len(outcome.harm) == len(HARMED), "the run went on"


def test_how_the_jobs_ended(outcome: Outcome) -> None:
    """SLURM's word for each interruption, as Snakemake reports it."""
    assert set(outcome.harm.values()) == {"scancel", "SIGKILL", "SIGSTOP"}
    for state in ("CANCELLED", "TIMEOUT", "FAILED"):
        assert f"SLURM status is: '{state}'" in outcome.said


def test_a_job_that_fails_for_good_is_reported_with_its_log(outcome: Outcome) -> None:
    assert outcome.code == 1
    assert not list(outcome.workflow.folder.glob("results/tiny/cells/train-*-fedau-*/manifest.json"))
    submitted = re.findall(r"SLURM jobid \d+ \(log: \S*-fedau-\S*\)", outcome.said)
    assert len(submitted) == 3
    assert "failed twice after round 3" in outcome.said and "broken in round 3" in outcome.said
    assert not (outcome.workflow.folder / TARGET).exists()


def test_once_it_is_mended_only_that_job_runs_and_then_none(outcome: Outcome) -> None:
    workflow = outcome.workflow
    workflow.edit(FAILING, *reversed(BREAK))
    run = start(workflow, workflow.folder / "again.txt", *RETRIED)
    assert run.wait(120) == 0
    said = (workflow.folder / "again.txt").read_text()
    assert len(re.findall("has been submitted with SLURM jobid", said)) == 1
    assert manifest(workflow, "fedau")["attempts"] == 1
    assert (workflow.folder / TARGET).exists()
    assert workflow.planned(TARGET, "--configfile", "few.yaml") == set()
