"""Cost of one client step of the scalar simulation: ``python -m benchmarks.scalar``.

A client step is one local stochastic gradient step of one sampled client in one trial; its cost includes its
share of client sampling and averaging. Measured on 100 trials of the Huber problem with d_max = 200, for
several numbers of sampled clients S and of local steps Q:

- ``kernel``: the compiled kernel on one thread, and on two for one case, in ns per step and core;
- ``numpy``: `benchmarks/scalar_numpy.py`, the same work for fewer rounds;
- ``ratio``: numpy over kernel.

Compilation is left out. Every case is timed several times, all cases in turn, so that a busy moment of the
machine does not fall on one case alone; the fastest run counts. Times are wall times: the case of two threads
needs two idle cores to mean something. Writes ``results/bench/scalar.json``.
"""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import scalar_numpy
from fedrepro.core.problem import Problem
from fedrepro.core.scalar import Simulation, simulate
from fedrepro.problems import huber40
from fedrepro.runtime.atomic import write_all

OUTPUT = Path("results/bench/scalar.json")
TRIALS = 100
REPEATS = 7
KERNEL_STEPS = 400_000_000  # of one timed run
NUMPY_STEPS = 8_000_000
PROBLEM = Problem(huber40, huber40.Params(d_max=200.0))


@dataclass(frozen=True)
class Case:
    """S sampled clients, Q local steps, threads of the kernel."""

    sampled: int
    local_steps: int
    threads: int = 1

    @property
    def name(self) -> str:
        """How tables and files call the case."""
        return f"S={self.sampled} Q={self.local_steps} threads={self.threads}"

    @property
    def steps_per_round(self) -> int:
        """Client steps of one round, all trials together."""
        return TRIALS * self.sampled * self.local_steps

    def work(self, steps: int) -> Simulation:
        """About so many client steps, at least one round."""
        rounds = max(1, steps // self.steps_per_round)
        return Simulation(
            start=PROBLEM.start,
            offsets=PROBLEM.offsets,
            sampled=self.sampled,
            local_steps=self.local_steps,
            step_sizes=np.full(rounds, 0.01 / self.local_steps),
            records=np.array([rounds]),
            trials=TRIALS,
            key=1,
        )


SINGLE = [Case(4, 10), Case(20, 10), Case(40, 10), Case(4, 200), Case(40, 200)]
CASES = [*SINGLE, Case(40, 10, threads=2)]


def seconds(call: Callable[..., Any], *arguments: Any) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def kernel_nanoseconds(case: Case) -> float:
    """Per client step and core."""
    work = case.work(KERNEL_STEPS)
    elapsed = seconds(simulate, huber40.step, "huber40", work, case.threads)
    return 1e9 * elapsed * case.threads / (len(work.step_sizes) * case.steps_per_round)


def numpy_nanoseconds(case: Case) -> float:
    """Per client step."""
    work = case.work(NUMPY_STEPS)
    elapsed = seconds(scalar_numpy.simulate, PROBLEM, work)
    return 1e9 * elapsed / (len(work.step_sizes) * case.steps_per_round)


def main() -> None:
    """Measure, print, write."""
    short = replace(CASES[0].work(1), trials=1)
    simulate(huber40.step, "huber40", short)  # compiles
    scalar_numpy.simulate(PROBLEM, short)
    kernel: dict[str, list[float]] = {case.name: [] for case in CASES}
    numpy: dict[str, list[float]] = {case.name: [] for case in SINGLE}
    for _ in range(REPEATS):
        for case in CASES:
            kernel[case.name].append(kernel_nanoseconds(case))
            if case.threads == 1:
                numpy[case.name].append(numpy_nanoseconds(case))
    ns = {name: min(times) for name, times in kernel.items()}
    numpy_ns = {name: min(times) for name, times in numpy.items()}
    ratio = {name: numpy_ns[name] / ns[name] for name in numpy_ns}

    print(f"ns per client step, fastest of {REPEATS}")
    print(f"{'case':<24}{'kernel':>9}{'numpy':>9}{'ratio':>8}")
    for case in CASES:
        line = f"{case.name:<24}{ns[case.name]:>9.3f}"
        if case.name in ratio:
            line += f"{numpy_ns[case.name]:>9.2f}{ratio[case.name]:>8.1f}"
        print(line)

    content = {
        "ns_per_step": ns,
        "numpy_ns_per_step": numpy_ns,
        "ratio": ratio,
        "threads": {case.name: case.threads for case in CASES},
        "cpu_count": os.cpu_count(),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "python": platform.python_version(),
    }
    write_all({OUTPUT: (json.dumps(content, indent=2) + "\n").encode()})
    print(f"wrote {OUTPUT}")


if __name__ == "__main__":
    main()
