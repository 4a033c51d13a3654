"""`fedrepro cluster check` on a real cluster."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.conftest import Workflow, copy_workflow

CHECK = ("cluster", "check", "--config", "tier=tiny")


@pytest.fixture
def workflow(cluster: None, tmp_path: Path) -> Workflow:
    return copy_workflow(tmp_path / "workflow")


@pytest.fixture
def job(workflow: Workflow) -> Iterator[str]:
    """A job as a Snakemake that was killed leaves it behind."""
    command = [
        "sbatch",
        "--parsable",
        "--job-name=fedrepro_0a",
        "--comment=rule_cell_train",
        "--wrap=sleep 60",
    ]
    submitted = subprocess.run(command, cwd=workflow.folder, capture_output=True, text=True, check=True)
    yield submitted.stdout.strip()
    subprocess.run(["scancel", submitted.stdout.strip()], check=True)


def test_a_run_time_that_the_partition_does_not_allow(workflow: Workflow) -> None:
    """SLURM itself takes such a job, and lets it wait for ever."""
    said = workflow.fedrepro(*CHECK)
    assert said.returncode == 1
    assert "partition gpu allows 60, and they would wait for ever. Set FEDREPRO_MAX_MINUTES=60" in said.stderr


def test_a_job_of_an_earlier_run_is_found_and_can_be_cleared(workflow: Workflow, job: str) -> None:
    limited = Workflow(workflow.folder, {"FEDREPRO_MAX_MINUTES": "60"})
    said = limited.fedrepro(*CHECK)
    assert said.returncode == 1
    command = said.stderr.splitlines()[-1].partition("end them with: ")[2]
    assert command == f"scancel {job}"
    subprocess.run(command.split(), check=True)
    said = limited.fedrepro(*CHECK)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("cell_train: 20 jobs of up to 60 minutes, partition gpu")
