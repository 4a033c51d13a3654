"""FedAvg with partial participation on scalar problems, for many independent trials at once.

Each round S of n clients are drawn uniformly without replacement; each runs Q local steps
``x <- x - alpha_t (f_i'(x) + e)`` with a two-point oracle error e = +- sqrt(variance); the server takes the
mean of their models (partial-participation paper, Algorithm 1).

Fast because the lanes of a block of trials, one lane a sampled client, stay in cache through all Q local
steps, and the loop over lanes is free of branches, so that it is vectorised. Random numbers are a function
of (key, trial, position): results depend neither on the size of a block nor on the number of threads.
"""

import os
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedrepro.core.rng import stream

LANES = 1024  # of one block: with x, offset and generator state, 24 KB
ON_DISK = "NUMBA_CACHE_DIR" in os.environ  # the runtime names a folder per code digest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Simulation:
    """What `simulate` runs.

    ``start``: x_0. ``offsets``: one number per client (n,), handed to the problem's ``step``.
    ``sampled``: S. ``local_steps``: Q. ``step_sizes``: alpha_t (T,). ``records``: ascending completed rounds
    at which x is kept. ``trials``: independent repetitions. ``key``: 64-bit key of all random numbers.
    """

    start: float
    offsets: Floats
    sampled: int
    local_steps: int
    step_sizes: Floats
    records: NDArray[np.int64]
    trials: int
    key: int


def key(seed: int, problem: str) -> int:
    """The key of a cell's random numbers: the same for every S, Q and step size."""
    return int(stream(seed, "oracle", problem).integers(2**63))


def simulate(step: Callable[..., Any], name: str, work: Simulation, threads: int = 1) -> Floats:
    """The server's x at the recorded rounds, shape (trials, records).

    Parameters
    ----------
    step : compiled function
        ``step(x, offset) -> (gradient, deviation)``: derivative of a client's objective, and standard
        deviation of its oracle.
    name : str
        Name of the problem, which names the compiled kernel on disk.
    work : Simulation
        What to run.
    threads : int
        Threads over trials; the result does not depend on it.
    """
    kernel = _compiled(step, name)
    out = np.empty((work.trials, len(work.records)))
    parts = np.array_split(np.arange(work.trials), min(threads, work.trials))

    def run(part: NDArray[np.int64]) -> None:
        kernel(
            work.start, work.offsets, work.sampled, work.local_steps, work.step_sizes, work.records,
            np.uint64(work.key), int(part[0]), out[part[0] : part[-1] + 1], max(1, LANES // work.sampled),
        )  # fmt: skip

    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(run, parts))
    return out


@cache
def _compiled(step: Callable[..., Any], name: str) -> Callable[..., None]:
    """`_kernel` with the problem's step built in, so that the compiler inlines it."""
    function = types.FunctionType(_kernel.__code__, {**globals(), "step": step}, f"kernel_{name}")
    function.__qualname__ = function.__name__
    function.__module__ = __name__
    return njit(nogil=True, cache=ON_DISK, error_model="numpy")(function)


@njit(inline="always")
def _mix(z):  # type: ignore[no-untyped-def]
    """The output function of SplitMix64: a bijection of 64-bit words that scatters nearby ones."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(inline="always")
def _next(z):  # type: ignore[no-untyped-def]
    """One step of xorshift64 (Marsaglia, 2003)."""
    z = z ^ (z << np.uint64(13))
    z = z ^ (z >> np.uint64(7))
    return z ^ (z << np.uint64(17))


def _kernel(  # type: ignore[no-untyped-def]
    start, offsets, sampled, local_steps, step_sizes, records, key, first, out, block
):
    """Fill ``out`` (trials, records), one block of trials after the other.

    Lane ``j * rows + row`` is the j-th sampled client of the block's trial ``row``, so that filling, drawing
    and averaging run over neighbouring trials.
    """
    n = offsets.size
    x = np.empty(block * sampled)
    offset = np.empty(block * sampled)
    state = np.empty(block * sampled, np.uint64)  # of a lane's oracle
    urn = np.empty((block, n), np.int64)  # a permutation of the clients
    draw = np.empty(block, np.uint64)  # state of a trial's client sampling
    server = np.empty(block)
    for begin in range(0, out.shape[0], block):
        rows = min(block, out.shape[0] - begin)
        for row in range(rows):
            base = _mix(key ^ _mix(np.uint64(first + begin + row)))
            draw[row] = _mix(base) | np.uint64(1)
            server[row] = start
            for i in range(n):
                urn[row, i] = i
            for j in range(sampled):
                state[j * rows + row] = _mix(base + np.uint64(j + 1)) | np.uint64(1)
                offset[j * rows + row] = offsets[j]
        kept = 0
        for t in range(step_sizes.size + 1):
            if kept < records.size and records[kept] == t:
                for row in range(rows):
                    out[begin + row, kept] = server[row]
                kept += 1
            if t == step_sizes.size:
                break
            alpha = step_sizes[t]
            if sampled < n:  # the first S positions of a shuffle
                for j in range(sampled):
                    for row in range(rows):
                        z = _next(draw[row])
                        draw[row] = z
                        k = j + np.int64(((z >> np.uint64(32)) * np.uint64(n - j)) >> np.uint64(32))
                        client = urn[row, k]
                        urn[row, k] = urn[row, j]
                        urn[row, j] = client
                        offset[j * rows + row] = offsets[client]
            for j in range(sampled):
                for row in range(rows):
                    x[j * rows + row] = server[row]
            for _ in range(local_steps):
                for lane in range(rows * sampled):
                    z = _next(state[lane])
                    state[lane] = z
                    gradient, deviation = step(x[lane], offset[lane])  # type: ignore[name-defined] # noqa: F821
                    sign = 1.0 if np.int64(z) < 0 else -1.0
                    x[lane] -= alpha * (gradient + sign * deviation)
            for row in range(rows):
                server[row] = 0.0
            for j in range(sampled):
                for row in range(rows):
                    server[row] += x[j * rows + row]
            for row in range(rows):
                server[row] /= sampled
