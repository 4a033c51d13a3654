"""Precision: what weights are kept in, and what products are computed in."""

import os
from typing import Any

import torch

STORAGE = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.float32,
    "fp64": torch.float64,
}
COMPUTE = {"bf16": torch.bfloat16}  # where it is not the storage's


def configure(numerics: str, device: str = "cpu") -> None:
    """Set PyTorch's switches for one precision, and for equal bits in equal runs on a GPU.

    By default cuDNN computes float32 products in TF32, and picks algorithms by timing them.
    """
    backends: Any = torch.backends
    for products in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
        products.fp32_precision = "tf32" if numerics == "tf32" else "ieee"
    if device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
        torch.use_deterministic_algorithms(True, warn_only=True)
        utilities: Any = torch.utils.deterministic
        utilities.fill_uninitialized_memory = False
        torch.backends.cudnn.benchmark = False
