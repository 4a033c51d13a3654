"""The fused pooling kernel equals PyTorch's two operations, bit for bit."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.layers import FUSED_CHANNELS, ClientLayers, FusedLayers
from fedrepro.core.pooling import PoolReLU


def both(images: Tensor, bias: Tensor | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """Value and gradients of the kernel, and of PyTorch; the bias is zero unless given."""
    out = []
    start = torch.zeros(images.shape[1], dtype=images.dtype) if bias is None else bias
    for pool in (PoolReLU.apply, lambda x, b: F.relu(F.max_pool2d(x, 2) + b[:, None, None])):
        x = images.clone(memory_format=torch.preserve_format).requires_grad_()
        b = start.clone().requires_grad_()
        pooled = pool(x, b)
        weights = torch.arange(1.0, 1 + pooled.numel(), dtype=x.dtype).view_as(pooled)
        out.append([pooled.detach(), *torch.autograd.grad(pooled, (x, b), weights)])
    return out[0], out[1]


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 16, 8, 6), (1, 1, 2, 2), (2, 33, 4, 10)])
def test_random_images(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(shape, dtype=dtype, generator=generator)
    bias = torch.randn(shape[1], dtype=dtype, generator=generator)
    for layout in (images, channels_last(images)):
        ours, theirs = both(layout, bias)
        torch.testing.assert_close(ours[2], theirs[2], rtol=1e-5, atol=0)
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[1], theirs[1])
        assert ours[0].is_contiguous(memory_format=torch.channels_last)


def test_ties_zeros_and_negative_windows() -> None:
    """Every window of four values in {-1, -0., 0, 1, 2}: 625 windows, most of them with ties."""
    values = torch.tensor([-1.0, -0.0, 0.0, 1.0, 2.0])
    windows = torch.cartesian_prod(values, values, values, values).view(-1, 1, 2, 2)
    ours, theirs = both(windows)
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[1], theirs[1])


def test_nan_and_infinity_pass_through() -> None:
    values = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0])
    windows = torch.cartesian_prod(values, values, values, values).view(-1, 1, 2, 2)
    ours, theirs = both(windows)
    assert torch.equal(ours[0].isnan(), theirs[0].isnan())
    assert torch.equal(ours[0].nan_to_num(), theirs[0].nan_to_num())
    assert ours[0].isnan().any()
    finite = ~theirs[0].isnan().expand_as(theirs[1])
    assert torch.equal(ours[1][finite], theirs[1][finite])


@pytest.mark.parametrize(
    "images",
    [torch.randn(2, FUSED_CHANNELS, 5, 4), torch.randn(2, FUSED_CHANNELS - 1, 4, 4)],
    ids=["odd height", "few channels"],
)
def test_where_the_kernel_does_not_apply_pytorch_does(images: Tensor) -> None:
    bias = torch.randn(images.shape[1])
    assert torch.equal(FusedLayers().pool_relu(images, bias), ClientLayers().pool_relu(images, bias))
