"""Jobs as forks of a prepared process: nothing tells them from jobs that import for themselves."""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedrepro import __version__, forks
from fedrepro.core.registry import PACKAGE_ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="forked jobs need Linux")
SOURCE = str(PACKAGE_ROOT.parent)
VERSION = f"{__version__}\n"


class Run:
    """Stands for a Snakemake run: a process, and commands that say they belong to it."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(["sleep", "60"])
        self.folder, self.source = folder, SOURCE
        self.announced = f"{self.process.pid} {os.urandom(8).hex()}"

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        variables = os.environ | {"PYTHONPATH": self.source, forks.RUN: self.announced}
        return subprocess.Popen(
            [sys.executable, "-m", "fedrepro", *arguments],
            cwd=self.folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def command(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status and streams of a command."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def processes(self) -> list[int]:
        """Servers of the run and their jobs; the announcement is on the command line of both."""
        found = subprocess.run(["pgrep", "-f", self.announced], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started = Run(tmp_path)
    yield started
    started.end()
    wait_until(lambda: not started.processes(), 15)


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def replace_command_line(run: Run, text: str) -> None:
    """Give the run's folder a package whose jobs do something else."""
    package = run.folder / "fedrepro"
    package.mkdir()
    for name in ("__init__.py", "__main__.py", "forks.py"):
        (package / name).write_text((PACKAGE_ROOT / name).read_text())
    (package / "cli.py").write_text(text)
    run.source = str(run.folder)


SLOW = """
import signal, sys, time, pathlib
def main(arguments):
    def save(number, frame):
        pathlib.Path("saved").write_text(str(number))
        sys.exit(7)
    signal.signal(signal.SIGTERM, save)
    pathlib.Path("started").write_text("x")
    time.sleep(30)
"""


def test_families() -> None:
    assert [forks.family(words.split()) for words in ("run train --spec x", "run scalar", "run trace")] == [
        "train", "scalar", "light",
    ]  # fmt: skip
    assert [forks.family([word]) for word in ("figure", "table", "collect", "report")] == [
        "outputs", "outputs", "light", "light",
    ]  # fmt: skip


def test_a_fork_answers_as_the_command_itself(run: Run) -> None:
    """Exit status, both streams and the folder are those of the command; the second forks the same server."""
    alone = subprocess.run(
        [sys.executable, "-m", "fedrepro", "collect", "--plan", "absent", "--cells", "c", "--out", "o"],
        cwd=run.folder, env=os.environ | {"PYTHONPATH": SOURCE}, text=True, capture_output=True,
    )  # fmt: skip
    assert alone.returncode == 1
    assert "absent" in alone.stderr
    for _ in range(2):
        answer = run.command("collect", "--plan", "absent", "--cells", "c", "--out", "o")
        assert answer == (alone.returncode, alone.stdout, alone.stderr)
    assert len(run.processes()) == 1


def test_wrong_arguments_end_with_the_parsers_status(run: Run) -> None:
    status, _, err = run.command("collect", "--nonsense")
    assert status == 2
    assert "usage:" in err


def test_commands_at_the_same_time_share_one_server(run: Run) -> None:
    started = [run.start("--version") for _ in range(4)]
    assert [process.communicate(timeout=60)[0] for process in started] == [VERSION] * 4
    assert len(run.processes()) == 1


def test_without_a_run_the_command_runs_itself(tmp_path: Path) -> None:
    """Also where the run's process is already gone, so that no server could watch it."""
    for announced in ("", "999999999 gone"):
        variables = os.environ | {"PYTHONPATH": SOURCE, forks.RUN: announced}
        answer = subprocess.run(
            [sys.executable, "-m", "fedrepro", "--version"], env=variables, text=True, capture_output=True
        )
        assert (answer.returncode, answer.stdout) == (0, VERSION)


def test_a_terminated_proxy_terminates_its_job_and_no_other(run: Run) -> None:
    replace_command_line(run, SLOW)
    started, saved = run.folder / "started", run.folder / "saved"
    first = run.start("run", "trace")
    wait_until(started.exists, 30)
    started.unlink()
    second = run.start("run", "trace")
    wait_until(started.exists, 30)
    first.terminate()
    assert first.wait(10) == 7, "the job's own status"
    assert saved.read_text() == str(int(signal.SIGTERM))
    assert second.poll() is None
    saved.unlink()
    second.kill()
    wait_until(saved.exists, 10)


def test_everything_ends_with_the_run(run: Run) -> None:
    replace_command_line(run, SLOW)
    job = run.start("run", "trace")
    wait_until((run.folder / "started").exists, 30)
    assert len(run.processes()) == 2
    run.end()
    wait_until((run.folder / "saved").exists, 10)
    wait_until(lambda: not run.processes(), 10)
    assert job.wait(10) == 7


def test_a_job_that_is_killed_reports_its_signal(run: Run) -> None:
    """As a shell does: 128 and the number; the next job is not harmed."""
    replace_command_line(
        run, "import os\ndef main(arguments):\n    os.kill(os.getpid(), int(arguments[2]))\n    return 0\n"
    )
    assert run.command("run", "trace", "9")[0] == 128 + 9
    assert run.command("run", "trace", "0")[0] == 0


def test_a_library_that_cannot_be_imported_is_the_jobs_own_error(run: Run) -> None:
    replace_command_line(run, "def main():\n    import pandas\n")
    (run.folder / "pandas.py").write_text("raise ImportError('broken')")
    status, _, err = run.command("run", "trace")
    assert status == 1
    assert "ImportError: broken" in err


def test_a_job_and_its_proxy_may_end_in_the_same_breath() -> None:
    """The selector then reports both at once, in either order; the server must go on with the other jobs."""
    for order in ("job first", "proxy first"):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0fedrepro test {os.getpid()} {order}")
            listener.listen()
            server = forks._Server(listener, os.pidfd_open(os.getpid()))
            ours, theirs = socket.socketpair()
            process = subprocess.Popen(["true"])
            job = os.pidfd_open(process.pid)
            server._jobs[job] = process.pid, ours
            server._selector.register(job, selectors.EVENT_READ)
            server._selector.register(ours, selectors.EVENT_READ)
            theirs.close()
            steps = [server._finish, server._hear] if order == "job first" else [server._hear, server._finish]
            for step in steps:
                step(job)
            server._forget(ours)
            assert not server._jobs
            assert len(server._selector.get_map()) == 2, "the listener and the run are left"
