"""Random crops and flips of training images.

An image is padded by zeros, after normalisation, and a window of its own size is cut at a random shift. The
papers' released code draws one shift and one flip for a whole minibatch.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def crop(images: Tensor, shifts: Tensor, padding: int) -> Tensor:
    """Cut one window per image.

    Parameters
    ----------
    images : (n, C, H, W), channels last in memory
    shifts : int64 (n, 2) or (1, 2)
        Upper left corner (row, column) of each window in the padded image, 0 to ``2 * padding``; a single
        row holds for all images.
    padding : int
        Zeros on each side.
    """
    if len(shifts) == 1:
        row, column = shifts[0].tolist()
        return _common_crop(images, row - padding, column - padding)
    number, depth, height, width = images.shape
    padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, padding, padding, padding, padding))
    n, h, w, c = padded.stride()
    sides = 2 * padding + 1
    windows = padded.as_strided((number, sides, sides, height, width, depth), (n, h, w, h, w, c))
    positions = torch.arange(number, device=images.device)
    return windows[positions, shifts[:, 0], shifts[:, 1]].permute(0, 3, 1, 2)


def flip(images: Tensor, flips: Tensor) -> Tensor:
    """Mirror left and right the images (n, C, H, W) whose flag is set; flags bool (n,), or (1,) for all."""
    if len(flips) == 1:
        return images.flip(3) if flips.item() else images
    return torch.where(flips[:, None, None, None], images.flip(3), images)


def _common_crop(images: Tensor, down: int, right: int) -> Tensor:
    height, width = images.shape[2:]
    cut = torch.zeros_like(images)
    rows = slice(max(0, -down), min(height, height - down))
    columns = slice(max(0, -right), min(width, width - right))
    cut[:, :, rows, columns] = images[
        :, :, rows.start + down : rows.stop + down, columns.start + right : columns.stop + right
    ]
    return cut
