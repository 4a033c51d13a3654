"""The software and hardware a result was computed with."""

import hashlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

SITE_VARIABLES = (
    "FEDREPRO_DEVICE",
    "FEDREPRO_CHECKPOINT_SECONDS",
    "FEDREPRO_CELLS_PER_GPU",
    "CUDA_VISIBLE_DEVICES",
    "SLURM_JOB_ID",
)


def lock_hash(root: Path) -> str:
    """Hash of the pinned requirements, comments aside."""
    lines = (root / "envs" / "requirements.lock").read_text().splitlines()
    pins = sorted(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    return hashlib.sha256("\n".join(pins).encode()).hexdigest()[:12]


def environment(root: Path, device: str) -> dict[str, str]:
    """What may change bits: results of one experiment and seed must agree on all of it."""
    found = {
        "lock": lock_hash(root),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "numpy": importlib.metadata.version("numpy"),
        "torch": importlib.metadata.version("torch"),
        "device": device,
    }
    if "numba" in sys.modules:
        found["cpu"] = sys.modules["llvmlite.binding"].get_host_cpu_name()
    if torch := sys.modules.get("torch"):  # only where the job used it
        found["cpu"] = torch.backends.cpu.get_cpu_capability()
        if device.startswith("cuda"):
            found |= {"device": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return found


def site() -> dict[str, str]:
    """Site settings that were in force; they change no number."""
    return {name: os.environ[name] for name in SITE_VARIABLES if name in os.environ}
