"""Choosing the device a cell trains on."""

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
