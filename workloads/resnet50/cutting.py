"""Parts of many images, each of another size, resized and mirrored on the GPU by one kernel.

The result is that of PyTorch's antialiased bilinear interpolation, which smooths where an image becomes smaller, as Pillow's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import torch
import triton
import triton.language as tl
from torch import Tensor

from common.feeding import Batch
from common.order import Chunks
from decoding import HEAD
from images import Images


class Cut:
    """Batches of parts of images that the CPUs decode; the device makes them ready."""

    def __init__(self, images: Images, device: torch.device, size: int) -> None:
        self.images, self.device, self.size = images, device, size

    def batches(self, chunks: Chunks) -> Generator[Batch, None, None]:
        """The images of chunks of samples, with their labels; they must be computed when the next batch is asked for."""
        with contextlib.closing(self.images.batches(chunks)) as batches:
            for rows, labels in batches:
                yield cut(rows.to(self.device, non_blocking=True), self.size), labels


def cut(rows: Tensor, size: int) -> Tensor:
    """Count × size × size × 3 from rows as `decoding` writes them: height, width and whether it is mirrored, then the part."""
    out = torch.empty(len(rows), size, size, 3, dtype=torch.uint8, device=rows.device)
    _line[(len(rows), size)](out, rows, rows.shape[1], HEAD, size, triton.next_power_of_2(size))
    return out


@triton.jit  # its pointers have no types that Triton would take
def _line(out, rows, ROW: tl.constexpr, HEAD: tl.constexpr, SIZE: tl.constexpr, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """One line of one result: each of its pixels is the mean of those that it covers, by their distance."""
    image, y = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row = rows + image * ROW
    head = row.to(tl.pointer_type(tl.int32))
    height, width, mirrored = tl.load(head), tl.load(head + 1), tl.load(head + 2)
    x = tl.arange(0, WIDE)
    across, down = width.to(tl.float32) / SIZE, height.to(tl.float32) / SIZE
    reach_x, reach_y = tl.maximum(across, 1.0), tl.maximum(down, 1.0)
    middle_x = (tl.where(mirrored > 0, SIZE - 1 - x, x) + 0.5) * across
    middle_y = (y + 0.5) * down
    first_x, last_x = tl.maximum((middle_x - reach_x + 0.5).to(tl.int32), 0), (middle_x + reach_x + 0.5).to(tl.int32)
    first_y, last_y = tl.maximum((middle_y - reach_y + 0.5).to(tl.int32), 0), (middle_y + reach_y + 0.5).to(tl.int32)
    red = tl.zeros([WIDE], tl.float32)
    green = tl.zeros([WIDE], tl.float32)
    blue = tl.zeros([WIDE], tl.float32)
    total = tl.zeros([WIDE], tl.float32)
    for line in range(first_y, tl.minimum(last_y, height)):
        of_line = tl.maximum(1.0 - tl.abs(line + 0.5 - middle_y) / reach_y, 0.0)
        for step in range((2 * reach_x).to(tl.int32) + 2):
            column = first_x + step
            inside = (column < tl.minimum(last_x, width)) & (x < SIZE)
            weight = tl.where(inside, tl.maximum(1.0 - tl.abs(column + 0.5 - middle_x) / reach_x, 0.0) * of_line, 0.0)
            pixel = row + HEAD + (line * width + column) * 3
            red += weight * tl.load(pixel, inside, 0).to(tl.float32)
            green += weight * tl.load(pixel + 1, inside, 0).to(tl.float32)
            blue += weight * tl.load(pixel + 2, inside, 0).to(tl.float32)
            total += weight
    pixel = out + ((image * SIZE + y) * SIZE + x) * 3
    tl.store(pixel, (red / total + 0.5).to(tl.uint8), x < SIZE)
    tl.store(pixel + 1, (green / total + 0.5).to(tl.uint8), x < SIZE)
    tl.store(pixel + 2, (blue / total + 0.5).to(tl.uint8), x < SIZE)
