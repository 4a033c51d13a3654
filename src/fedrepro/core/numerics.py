"""Precision: what weights are kept in, and what products are computed in."""

from typing import Any

import torch

STORAGE = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.float32,
    "fp64": torch.float64,
}
COMPUTE = {"bf16": torch.bfloat16}  # where it is not the storage's


def configure(numerics: str) -> None:
    """Set PyTorch's switches for one precision; by default cuDNN computes float32 products in TF32."""
    backends: Any = torch.backends
    for products in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
        products.fp32_precision = "tf32" if numerics == "tf32" else "ieee"
