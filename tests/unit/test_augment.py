"""Crops and flips against index arithmetic, pixel by pixel."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrepro.core.augment import crop, flip

PADDING = 2
IMAGES = torch.arange(1.0, 1 + 3 * 5 * 4 * 2).view(3, 5, 4, 2).permute(0, 3, 1, 2)  # 3 images, 2 x 5 x 4


def window(image: NDArray[np.float32], row: int, column: int) -> NDArray[np.float32]:
    """The crop by definition: pixel (y, x) is pixel (y + row - padding, x + column - padding), or zero."""
    _, height, width = image.shape
    out = np.zeros_like(image)
    for y in range(height):
        for x in range(width):
            source_y, source_x = y + row - PADDING, x + column - PADDING
            if 0 <= source_y < height and 0 <= source_x < width:
                out[:, y, x] = image[:, source_y, source_x]
    return out


def expected(shifts: list[list[int]]) -> Tensor:
    parts = [window(image, *shift) for image, shift in zip(IMAGES.numpy(), shifts, strict=True)]
    return torch.from_numpy(np.stack(parts))


@pytest.mark.parametrize("row", range(2 * PADDING + 1))
@pytest.mark.parametrize("column", range(2 * PADDING + 1))
def test_every_corner_for_a_whole_batch(row: int, column: int) -> None:
    assert torch.equal(crop(IMAGES, torch.tensor([[row, column]]), PADDING), expected([[row, column]] * 3))


def test_every_image_its_own_corner() -> None:
    shifts = [[0, 4], [3, 1], [2, 2]]
    assert torch.equal(crop(IMAGES, torch.tensor(shifts), PADDING), expected(shifts))


def test_the_middle_corner_is_the_image() -> None:
    assert torch.equal(crop(IMAGES, torch.tensor([[PADDING, PADDING]]), PADDING), IMAGES)


@pytest.mark.parametrize("shifts", [[[1, 3]], [[1, 3], [0, 0], [4, 4]]])
def test_crops_stay_channels_last_and_leave_the_images_alone(shifts: list[list[int]]) -> None:
    before = IMAGES.clone()
    found = crop(IMAGES, torch.tensor(shifts), PADDING)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(IMAGES, before)


def test_flips() -> None:
    mirrored = IMAGES[:, :, :, [3, 2, 1, 0]]
    assert torch.equal(flip(IMAGES, torch.tensor([True])), mirrored)
    assert torch.equal(flip(IMAGES, torch.tensor([False])), IMAGES)
    mixed = flip(IMAGES, torch.tensor([True, False, True]))
    assert torch.equal(mixed, torch.stack([mirrored[0], IMAGES[1], mirrored[2]]))
