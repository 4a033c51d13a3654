"""Speed of the training engine beside ordinary loops and other frameworks: ``python -m benchmarks.engine``.

The unit is client steps per second: one SGD step of one client on a batch of 128, in whole rounds with
sampling, augmentation, clipping and aggregation (`benchmarks.workload`). Contestants:

- ``ordinary``: the loop that most code has, `benchmarks/ordinary.py`;
- ``best``: the same loop with the best settings, two processes of one thread;
- ``pfl``, ``flower``: `benchmarks/peers/`, two workers of one thread, in environments of their own; skipped
  where these are absent (``make bench-peers`` makes them);
- ``ours``: this project's engine, two processes of one thread, as two cells run at once;
- ``sgemm``: matrix products on two processes of one thread, the peak that shares are taken of.

Each runs in its own processes, all in turn and that several times, so that a busy moment of the machine does
not fall on one contestant alone; medians count. Two processes warm up, wait for each other, and their rates
are added. How busy the machine is with other work is looked at before every run. Writes
``results/bench/engine.json``; what contestants say on the way stands in ``results/bench/logs/``.
"""

import argparse
import importlib.util
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import workload
from fedrepro.runtime.atomic import write_all

OUTPUT = Path("results/bench/engine.json")
LOGS = Path("results/bench/logs")
START_SECONDS = 120  # what a contestant may take beyond the timed seconds
BUSY = 0.1  # share of the machine that other work may take
PEERS = ("pfl", "flower")
NOT_INSTALLED = "not installed"

Line = Mapping[str, Any]  # what a process of a contestant prints


@dataclass(frozen=True)
class Contestant:
    """Something that is timed.

    ``command``: what follows ``python -m``; ``processes``: how many run at once; ``environment``: the folder
    of its virtual environment, or None for the running one; ``needs``: a package that it must have; ``make``:
    what installs the environment or the package; ``unit``: what its lines count.
    """

    name: str
    command: tuple[str, ...]
    processes: int = 1
    environment: Path | None = None
    needs: str | None = None
    make: str = ""
    unit: str = "client_steps"

    @property
    def python(self) -> Path:
        """The interpreter it runs with."""
        return self.environment / "bin/python" if self.environment else Path(sys.executable)

    @property
    def installed(self) -> bool:
        """Whether there is what it needs."""
        if self.environment:
            return self.python.exists()
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
CONTESTANTS = [
    Contestant(
        "ordinary",
        ("benchmarks.ordinary", "--variant", "usual"),
        needs="torchvision",
        make="make bench",
    ),
    Contestant("best", ("benchmarks.ordinary", "--variant", "best"), processes=2),
    Contestant(
        "pfl",
        (*TORCHRUN, "benchmarks.peers.pfl_peer"),
        environment=Path(".venv-pfl"),
        make="make bench-peers",
    ),
    Contestant(
        "flower",
        ("benchmarks.peers.flower_peer",),
        environment=Path(".venv-flower"),
        make="make bench-peers",
    ),
    Contestant("ours", ("benchmarks.ours",), processes=2),
    Contestant("sgemm", ("benchmarks.sgemm",), processes=2, unit="flop"),
]


class ContestantFailed(Exception):  # noqa: N818 - reads as what happened
    """A contestant ended without its line, or took too long."""


def run(contestant: Contestant, seconds: float) -> list[Line]:
    """Run a contestant once; returns the line of each of its processes."""
    command = [str(contestant.python), "-m", *contestant.command, "--seconds", str(seconds)]
    if contestant.processes > 1:
        command.append("--barrier")
    LOGS.mkdir(parents=True, exist_ok=True)
    processes: list[subprocess.Popen[str]] = []
    watchdog = threading.Timer(seconds + START_SECONDS, lambda: _kill(processes))
    with (LOGS / f"{contestant.name}.log").open("w") as log:
        try:
            for _ in range(contestant.processes):
                processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        start_new_session=True,  # so that its own children end with it
                    )
                )
            watchdog.start()
            if contestant.processes > 1:
                _start_together(processes)
            return [_last_line(process) for process in processes]
        except (BrokenPipeError, StopIteration, ValueError) as error:
            raise ContestantFailed(f"{contestant.name} failed; see {log.name}") from error
        finally:
            watchdog.cancel()
            _kill(processes)


def _start_together(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Wait until every process says that it is warm, then let all of them go."""
    for process in processes:
        assert process.stdout
        next(line for line in process.stdout if line == "ready\n")
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()


def _last_line(process: subprocess.Popen[str]) -> Line:
    output, _ = process.communicate()
    if process.returncode:
        raise ValueError(f"exit status {process.returncode}")
    return json.loads(output.splitlines()[-1] if output else "")


def _kill(processes: Sequence[subprocess.Popen[str]]) -> None:
    """End what still runs, with the processes it started."""
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def rate(contestant: Contestant, lines: Sequence[Line]) -> float:
    """What a contestant does per second, all its processes together."""
    return sum(line[contestant.unit] / line["seconds"] for line in lines)


def summary(repeats: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Medians and what follows from them.

    Parameters
    ----------
    repeats : mapping of str to sequence of float
        The measured rates by contestant: client steps per second, for ``sgemm`` FLOP per second. Contestants
        that did not run are absent, and so are the ratios to them.
    """
    rates = {name: statistics.median(values) for name, values in repeats.items() if values}
    ratios = {name: rates["ours"] / value for name, value in rates.items()} if "ours" in rates else {}
    peers = {name: ratios[name] for name in PEERS if name in ratios}
    if peers:
        peers["fastest"] = min(peers.values())
    peak = rates.pop("sgemm", None)
    return {
        "ratio_to_ordinary_loop": ratios.get("ordinary"),
        "ratio_to_best_loop": ratios.get("best"),
        "ratio_to_peers": peers,
        "share_of_sgemm_peak": rates["ours"] * workload.STEP_FLOP / peak if peak and ratios else None,
        "sgemm_gflop_per_second": peak / 1e9 if peak else None,
        "rates": rates,
    }


def status(contestant: Contestant) -> str:
    """``ok`` before it has run, or ``not installed``."""
    return "ok" if contestant.installed else NOT_INSTALLED


def busy(seconds: float = 0.5) -> float:
    """Share of all cores' time that is used just now; 0 where the system does not say."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    times = []
    for wait in (seconds, 0.0):
        user, nice, system, idle, iowait, *rest = map(int, stat.read_text().split(maxsplit=9)[1:9])
        times.append((user + nice + system + sum(rest), idle + iowait))
        time.sleep(wait)
    used, unused = (after - before for before, after in zip(*times, strict=True))
    return used / max(1, used + unused)


def machine() -> dict[str, Any]:
    """What the rates were measured on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
    }


def table(result: Mapping[str, Any]) -> Table:
    """The contestants a line each: rate, our ratio to it, its share of the peak."""
    out = Table(title="client steps per second, medians")
    for column in ("contestant", "processes x threads", "steps/s", "ours is", "of sgemm peak"):
        out.add_column(column, justify="left" if column == "contestant" else "right")
    rates, peak = result["rates"], result["sgemm_gflop_per_second"]
    for name, state in result["status"].items():
        if name == "sgemm":
            continue
        if name not in rates:
            out.add_row(name, "", state, "", "")
            continue
        settings = result["settings"][name]
        out.add_row(
            name,
            f"{settings['processes']} x {settings['threads']}",
            f"{rates[name]:.1f}",
            f"{rates['ours'] / rates[name]:.2f} x" if "ours" in rates else "",
            f"{rates[name] * workload.STEP_FLOP / peak / 1e9:.0%}" if peak else "",
        )
    return out


def measure(
    contestants: Sequence[Contestant], seconds: float, repeats: int, console: Console
) -> dict[str, Any]:
    """Time all contestants in turn, several times; returns the content of the report."""
    states = {contestant.name: status(contestant) for contestant in contestants}
    for contestant in contestants:
        if not contestant.installed:
            console.print(f"{contestant.name}: {NOT_INSTALLED}; {contestant.make} installs it")
    measured: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    others: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    settings: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    for repeat in range(repeats):
        for contestant in contestants:
            name = contestant.name
            if states[name] != "ok":
                continue
            others[name].append(busy())
            try:
                lines = run(contestant, seconds)
            except ContestantFailed as error:
                states[name] = str(error)
                console.print(f"{error}")
                continue
            measured[name].append(rate(contestant, lines))
            first = lines[0]
            settings[name] = {"processes": len(lines), "threads": first["threads"], **first["settings"]}
            versions[name] = first["versions"]
            value = measured[name][-1]
            unit = f"{value / 1e9:.1f} GFLOP/s" if name == "sgemm" else f"{value:.1f} steps/s"
            console.print(f"{repeat + 1}/{repeats} {name}: {unit}")
    return {
        **summary(measured),
        "status": states,
        "settings": settings,
        "versions": versions,
        "workload": {
            "clients": workload.CLIENTS,
            "images": workload.IMAGES,
            "cohort": workload.COHORT,
            "local_steps": workload.LOCAL_STEPS,
            "batch": workload.BATCH,
            "step_flop": workload.STEP_FLOP,
        },
        "machine": machine(),
        "busy_before": others,
        "seconds": seconds,
        "repeats": measured,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Time the engine beside ordinary loops and peers.")
    parser.add_argument("--seconds", type=float, default=8.0, help="timed seconds of one run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contestant")
    options = parser.parse_args()
    console = Console()
    result = measure(CONTESTANTS, options.seconds, options.repeats, console)
    console.print(table(result))
    write_all({OUTPUT: (json.dumps(result, indent=2) + "\n").encode()})
    console.print(f"wrote {OUTPUT}")
    if (most := max(sum(result["busy_before"].values(), [0.0]))) > BUSY:
        console.print(
            f"the machine was not idle: up to {most:.0%} busy before a run; measure again when it is"
        )
    if failed := [name for name, state in result["status"].items() if state not in ("ok", NOT_INSTALLED)]:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
