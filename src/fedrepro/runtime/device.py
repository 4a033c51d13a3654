"""What of the machine a job uses."""

import os

from fedrepro.errors import FedreproError

CHOICES = ("auto", "cpu", "cuda")


def choose() -> str:
    """``FEDREPRO_DEVICE``: ``cpu``, ``cuda``, or ``auto`` (the default): CUDA where there is some."""
    wanted = os.environ.get("FEDREPRO_DEVICE", "auto")
    if wanted not in CHOICES:
        raise FedreproError(
            f"environment variable FEDREPRO_DEVICE is {wanted!r}; allowed: {', '.join(CHOICES)}"
        )
    if wanted == "cpu":
        return wanted
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise FedreproError(
            "FEDREPRO_DEVICE is 'cuda' but PyTorch sees no CUDA device; unset it or use 'cpu'"
        )
    return "cpu"


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS
