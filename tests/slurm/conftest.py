"""A SLURM cluster of one node, where the machine can have one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.conftest import ROOT, finished, workflow

__all__ = ["finished", "workflow"]  # fixtures that are used here too

SCRIPTS = Path(__file__).parent
SLURM_PYTHON = ROOT / ".venv-slurm/bin/python"
SLURM = (  # the profile, with a queue that is asked often
    "--workflow-profile", "profiles/slurm", "--max-status-checks-per-second", "1",
    "--slurm-init-seconds-before-status-checks", "1",
)  # fmt: skip


def _lacking() -> str:
    """What the tests need and do not find; nothing where all is there."""
    if shutil.which("slurmctld") is None or shutil.which("munged") is None:
        return "SLURM is not installed: apt-get install slurm-wlm munge"
    if not SLURM_PYTHON.exists():
        return "its environment is not installed: make install-slurm"
    if os.getuid() != 0:
        return "starting a cluster needs root"
    return ""


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """The cluster of ``start.sh``; one that was running stays."""
    if lacking := _lacking():
        if os.environ.get("FEDREPRO_REQUIRE_SLURM"):
            pytest.fail(f"FEDREPRO_REQUIRE_SLURM is set, but {lacking}")
        pytest.skip(lacking)
    running = Path("/run/fedrepro-slurm/slurmctld.pid").exists()
    started = subprocess.run([SCRIPTS / "start.sh"], capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stderr
    yield
    if not running:
        subprocess.run([SCRIPTS / "stop.sh"], check=True)
