"""What of the machine a job uses."""

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fedrepro.errors import FedreproError

CHOICES = ("auto", "cpu", "cuda")
PER_GPU = "FEDREPRO_CELLS_PER_GPU"
WAIT_SECONDS = 0.5  # between looks for a free device


def choose() -> str:
    """The device of a training cell: ``cpu``, or ``cuda`` with one of the visible GPUs made current.

    ``FEDREPRO_DEVICE`` is ``cpu``, ``cuda``, or ``auto`` (the default): CUDA where there is some. Where
    several GPUs are visible and no queue has given the job one of them, it takes one that no other cell of
    this machine uses, and waits until there is one.
    """
    wanted = os.environ.get("FEDREPRO_DEVICE", "auto")
    if wanted not in CHOICES:
        raise FedreproError(
            f"environment variable FEDREPRO_DEVICE is {wanted!r}; allowed: {', '.join(CHOICES)}"
        )
    if wanted == "cpu":
        return wanted
    import torch

    if torch.cuda.is_available():
        devices = visible(torch.cuda.device_count())
        if len(devices) > 1 and "SLURM_JOB_ID" not in os.environ:
            torch.cuda.set_device(take(devices, cells_per_gpu()))
        return "cuda"
    if wanted == "cuda":
        raise FedreproError(
            "FEDREPRO_DEVICE is 'cuda' but PyTorch sees no CUDA device; unset it or use 'cpu'"
        )
    return "cpu"


def visible(number: int) -> list[str]:
    """Names of the visible GPUs, in PyTorch's order: what ``CUDA_VISIBLE_DEVICES`` calls them, or indices."""
    names = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return names[:number] if len(names) >= number else [str(index) for index in range(number)]


def cells_per_gpu() -> int:
    """``FEDREPRO_CELLS_PER_GPU``: how many cells share a GPU; one unless it is set."""
    text = os.environ.get(PER_GPU, "1")
    if not text.isdecimal() or int(text) < 1:
        raise FedreproError(
            f"environment variable {PER_GPU} is {text!r}; allowed: a whole number, at least 1"
        )
    return int(text)


def take(devices: Sequence[str], cells: int, folder: Path | None = None) -> int:
    """Take a place on a GPU, for the rest of the process: index of the GPU.

    A place is a locked file, which the kernel frees however the process ends. GPUs fill evenly.

    Parameters
    ----------
    devices : sequence of str
        Their names, the same for every process of the machine.
    cells : int
        Places on each.
    folder : Path, optional
        Where the files are; default: one of the user's in the machine's temporary folder.
    """
    folder = folder or Path(tempfile.gettempdir(), f"fedrepro-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    said = False
    while True:
        for place in range(cells):
            for index, device in enumerate(devices):
                # Left open on purpose: closing it would free the place.
                file = os.open(folder / f"{device}.{place}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(file)
                else:
                    return index
        if not said:
            said = True
            print(f"all of {len(devices)} GPUs are in use; waiting for one", file=sys.stderr, flush=True)
        time.sleep(WAIT_SECONDS)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS
