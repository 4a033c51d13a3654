"""A copy of the workflow with the tiny tier already run, shared by the tests of this folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
PARTS = (
    "Snakefile",
    "workflow",
    "profiles",
    "config",
    "src",
    "envs",
    "tests",
    "pyproject.toml",
    "CITATION.cff",
)
LIMIT = 1200  # seconds of a command, so that one that hangs fails


@dataclass(frozen=True)
class Workflow:
    """A copy of the workflow in a folder of its own, and environment variables to run it with."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all that runs here."""
        own = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "PYTHONPATH": "src", "HOME": str(self.folder)}
        return own | dict(self.variables)

    def snakemake(
        self, *arguments: str, tier: str = "tiny", config: tuple[str, ...] = (), python: str = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        """Run snakemake with plain log output (the default profile draws a progress bar)."""
        profile = () if "--workflow-profile" in arguments else ("--workflow-profile", "none")
        command = [python, "-m", "snakemake", *profile, *arguments]
        return self.command(*command, "--config", f"tier={tier}", *config)

    def fedrepro(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line of this copy."""
        return self.command(sys.executable, "-m", "fedrepro", *arguments)

    def command(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, with this copy's package first on the path."""
        return subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            timeout=LIMIT,
        )

    def planned(self, *arguments: str, config: tuple[str, ...] = (), **options: str) -> set[str]:
        """The jobs a dry run would run, by their messages; ``all`` is left out."""
        found = self.snakemake("-n", *arguments, config=config, **options)
        assert found.returncode == 0, found.stderr + found.stdout
        return set(re.findall(r"^Job \d+: (.+)$", found.stderr + found.stdout, flags=re.M))

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that must be there in a file of the copy."""
        file = self.folder / path
        text = file.read_text()
        assert old in text, f"{path} does not contain {old!r}"
        file.write_text(text.replace(old, new))

    def cells(self, *words: str) -> set[str]:
        """Ids of the tier's cells on disk that contain all words."""
        found = (path.parent.name for path in self.folder.glob("results/tiny/cells/*/manifest.json"))
        return {cell for cell in found if all(f"-{word}-" in f"-{cell}-" for word in words)}


def copy_workflow(folder: Path) -> Workflow:
    """Copy the parts of the repository that make a workflow."""
    folder.mkdir(parents=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, folder / part, ignore=ignore)
        else:
            shutil.copy(source, folder / part)
    return Workflow(folder)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """The tiny tier, run once for all test processes. Tests must not change it: they use `workflow`."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    said = shared / "finished.txt"
    with FileLock(shared / "finished.lock"):
        if not said.exists():
            made = copy_workflow(shared / "finished" / "workflow")
            run = made.snakemake("-c2")
            said.write_text("" if run.returncode == 0 else run.stderr + run.stdout)
    assert not said.read_text(), said.read_text()
    return Workflow(shared / "finished" / "workflow")


@pytest.fixture
def workflow(finished: Workflow, tmp_path: Path) -> Iterator[Workflow]:
    """A ``cp -r`` of the finished workflow, free to change: modification times are new."""
    copy = Workflow(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder, copy_function=shutil.copyfile)
    yield copy
    shutil.rmtree(copy.folder)
