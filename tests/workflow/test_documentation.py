"""Every command in the documentation runs, and every link leads somewhere."""

import re
import shlex
from pathlib import Path

import pytest

from tests.slurm.conftest import SLURM_PYTHON
from tests.workflow.conftest import ROOT, Workflow
from tests.workflow.test_extension_pages import FILES

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"))
)
INSTALL = ("python3 -m venv", ".venv/bin/pip install", "source .venv/", "pip install -r", "pip freeze")
# files that a page tells its reader to write
WRITTEN_BY_READERS = {"src/fedrepro/algorithms/fedavg_half.py", *(path for path, _ in FILES)}


def commands(page: str) -> list[str]:
    found = re.findall(r"^ *```sh\n(.*?)^ *```", (ROOT / page).read_text(), flags=re.M | re.S)
    lines = (re.sub(r"\s+#.*$", "", line).strip() for block in found for line in block.splitlines())
    return [line for line in lines if line]


DOCUMENTED = sorted({(page, command) for page in PAGES for command in commands(page)})


def test_there_are_commands() -> None:
    assert len(DOCUMENTED) > 15
    assert {"make demo", "make test"} <= {command for _, command in DOCUMENTED}


@pytest.mark.parametrize(("page", "command"), DOCUMENTED)
def test_documented_command(page: str, command: str, finished: Workflow) -> None:
    """Snakemake commands are planned, others run; what installs is what the Makefile does."""
    (finished.folder / "mine.yaml").write_text("seeds: [3]\n")
    words = shlex.split(command)
    if words[0] == ".venv-slurm/bin/snakemake":
        if not SLURM_PYTHON.exists():
            pytest.skip("its environment is not installed: make install-slurm")
        run = finished.command(str(SLURM_PYTHON), "-m", "snakemake", "-n", *words[1:])
        assert run.returncode == 0, run.stdout + run.stderr
    elif words[:2] == ["fedrepro", "cluster"]:  # which needs a cluster: tests/slurm
        assert finished.fedrepro(*words[1:], "--help").returncode == 0
    elif words[0] == "export":
        assert words[1].partition("=")[0] in (ROOT / "src/fedrepro/plan/cost.py").read_text()
    elif command.startswith(INSTALL):
        made = (ROOT / "Makefile").read_text() + (ROOT / "envs/README.md").read_text()
        parts = [word for word in words if word.startswith(("-", "envs/", "venv"))]
        assert all(part in made for part in parts)
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.M)
    elif words[0] == "snakemake":
        run = finished.command("python", "-m", *words, "-n")
        if "--config" in words:
            run = finished.command("python", "-m", words[0], "-n", *words[1:])
        assert run.returncode == 0, run.stdout + run.stderr
    elif command == "fedrepro compare OLD NEW":
        run = finished.fedrepro("compare", "results/tiny", "results/tiny")
        assert run.returncode == 0, run.stdout + run.stderr
    elif words[0] == "fedrepro":
        tier = ("--config", "tier=tiny")
        run = finished.fedrepro(*words[1:], *tier)
        assert run.returncode == 0, run.stdout + run.stderr
    else:
        assert words[0] == "pytest", f"{page}: no test for the command {command!r}"
        assert (ROOT / words[1]).is_dir()


@pytest.mark.parametrize("page", PAGES)
def test_links(page: str) -> None:
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if not link.startswith("http"):
            assert (ROOT / page).parent.joinpath(link).exists(), f"{page}: {link}"
    for name in re.findall(r"`((?:src|config|docs|tests|envs|workflow|profiles)/[\w./-]+)`", text):
        if name not in WRITTEN_BY_READERS:
            assert Path(ROOT, name).exists(), f"{page}: {name}"
