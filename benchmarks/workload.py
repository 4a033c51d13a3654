"""The work that every contestant of the engine benchmark does, and the clock that times it.

50 clients with 512 images each of SVHN's shape, cohorts of 6, 10 local steps a client and round on the
FedSWE paper's SVHN network (d = 273,706): batches of 128 with a random crop, gradients clipped to norm 0.5,
plain SGD, the mean of the updates. Images and cohorts come from fixed seeds. Nothing here imports fedrepro:
contestants in environments of their own use it too.
"""

import argparse
import ctypes
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CLIENTS = 50
IMAGES = 512  # of a client
SHAPE = (32, 32, 3)
CLASSES = 10
MEAN = (0.4377, 0.4438, 0.4728)  # of SVHN's channels, pixels in [0, 1]
STD = (0.1980, 0.2010, 0.1970)

ROUNDS = 1000  # more than any run gets through
COHORT = 6
LOCAL_STEPS = 10
BATCH = 128
PADDING = 4  # of the random crop
LR = 0.05
CLIP_NORM = 0.5

# Forward pass of one image, 2 FLOP a multiply-add, convolutions and linear layers alone.
FORWARD_FLOP = {
    "conv1": 2 * (32 * 32) * 32 * (3 * 9),  # positions x outputs x inputs
    "conv2": 2 * (16 * 16) * 32 * (32 * 9),
    "fc1": 2 * (8 * 8 * 32) * 128,
    "fc2": 2 * 128 * 10,
}
# The backward pass costs every layer two more of its forward passes, for the gradients of its weights and of
# its input, but conv1 one: nobody needs the gradient of the image. 19,275,264 an image, 2.467e9 a step.
STEP_FLOP = BATCH * (3 * sum(FORWARD_FLOP.values()) - FORWARD_FLOP["conv1"])


def images() -> NDArray[np.uint8]:
    """Images of all clients, shape (N, 32, 32, 3); client i has those from i * IMAGES on."""
    return np.random.default_rng(1).integers(0, 256, (CLIENTS * IMAGES, *SHAPE), dtype=np.uint8)


def labels() -> NDArray[np.int64]:
    """Their labels, shape (N,)."""
    return np.random.default_rng(2).integers(0, CLASSES, CLIENTS * IMAGES)


def cohorts() -> NDArray[np.int64]:
    """The clients of every round, ascending, shape (ROUNDS, COHORT)."""
    rng = np.random.default_rng(3)
    return np.stack([np.sort(rng.choice(CLIENTS, COHORT, replace=False)) for _ in range(ROUNDS)])


def normalised() -> tuple[Tensor, Tensor]:
    """Images as float32 tensors (clients, images, C, H, W), and labels (clients, images)."""
    pixels = torch.from_numpy(images()).permute(0, 3, 1, 2).to(torch.float32).contiguous()
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    pixels.div_(255).sub_(mean).div_(std)
    return pixels.view(CLIENTS, IMAGES, *pixels.shape[1:]), torch.from_numpy(labels()).view(CLIENTS, IMAGES)


def tune_allocator() -> str:
    """Have glibc keep freed memory instead of returning it at every step; says what is in force."""
    trim, top_pad, mmap = -1, -2, -3  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
    values = {mmap: 1 << 30, trim: (1 << 31) - 1, top_pad: 64 << 20}
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return "default"
    if not all(mallopt(option, value) for option, value in values.items()):
        return "default in part: mallopt refused a value"
    return "glibc, mallopt: mmap threshold 1 GiB, trim threshold 2 GiB, top pad 64 MiB"


def arguments() -> argparse.ArgumentParser:
    """The options of every contestant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0, help="stop after the round that passes this")
    parser.add_argument("--rounds", type=int, default=ROUNDS - 1, help="stop after so many timed rounds")
    parser.add_argument("--barrier", action="store_true", help="when warm, print 'ready' and wait for a line")
    return parser


class Clock:
    """Times whole rounds, after a first one that warms up.

    Parameters
    ----------
    options : argparse.Namespace
        From `arguments`.
    unit : str
        What is counted.
    per_round : int
        How many of it a round is.
    """

    def __init__(
        self, options: argparse.Namespace, unit: str = "client_steps", per_round: int = COHORT * LOCAL_STEPS
    ):
        self._options, self._unit, self._per_round = options, unit, per_round
        self._begin: float | None = None
        self._rounds, self._seconds = 0, 0.0

    def tick(self) -> bool:
        """Note a completed round; True once it is time to stop."""
        if self._begin is None:
            if self._options.barrier:
                print("ready", flush=True)
                sys.stdin.readline()
            self._begin = time.perf_counter()
            return False
        self._rounds += 1
        self._seconds = time.perf_counter() - self._begin
        return self._seconds >= self._options.seconds or self._rounds >= self._options.rounds

    def report(self, threads: int, settings: Mapping[str, Any], packages: Sequence[str] = ()) -> None:
        """Print the line of JSON that the driver reads: what was counted, seconds, settings, versions."""
        line = {
            self._unit: self._rounds * self._per_round,
            "seconds": self._seconds,
            "threads": threads,
            "settings": dict(settings),
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in ("torch", *packages)},
            },
        }
        print(json.dumps(line), flush=True)
