"""Image files as pixels: which part of an image is wanted, and that part decoded; NumPy and Pillow alone.

What chance does to an image is a function of seed, epoch and image, so that any number of ranks sees the same.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from PIL import Image

from common.labels import Wrong

ENDINGS = (".jpeg", ".jpg", ".png")
Box = tuple[float, float, float, float]


class File(Protocol):
    """A file of which parts can be decoded alone."""

    width: int
    height: int

    def part(self, box: Box) -> np.ndarray | None:
        """Height × width × 3, if it can be decoded."""


Quick = Callable[[str], "File | None"]


def training_box(width: int, height: int, numbers: random.Random, smallest_area: float) -> Box:
    """A random part of an image: from the smallest area (0.08 for ImageNet) to all of it, between 3:4 and 4:3."""
    for _ in range(10):
        area = width * height * numbers.uniform(smallest_area, 1.0)
        ratio = math.exp(numbers.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = numbers.randint(0, width - w), numbers.randint(0, height - h)
            return left, top, left + w, top + h
    return _middle(width, height, min(width, height))


def evaluation_box(width: int, height: int, size: int) -> Box:
    """The middle of an image whose shorter side would be 256 where 224 are wanted."""
    side = min(width, height) * 224 / 256 if size >= 224 else min(width, height)
    return _middle(width, height, side)


def _middle(width: int, height: int, side: float) -> Box:
    return (width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2


def choice(seed: int, epoch: int, index: int) -> random.Random:
    """The chance of one image in one epoch, the same in whatever batch and rank it is."""
    return random.Random((seed * 1_000_003 + epoch) << 32 | index)


def dimensions(path: str) -> tuple[int, int]:
    """Width and height, which stand at the beginning of a file."""
    with _opened(path) as image:
        width, height = image.size
    return width, height


def decode(path: str, size: int, numbers: random.Random | None, smallest_area: float) -> np.ndarray:
    """One image, size × size × 3; with `numbers` a random part, perhaps mirrored, else the middle."""
    with _opened(path) as image:
        width, height = image.size
        box = training_box(width, height, numbers, smallest_area) if numbers else evaluation_box(width, height, size)
        mirrored = bool(numbers and numbers.random() < 0.5)
        box = _draft(image, box, size)
        pixels = np.asarray(_coloured(image).resize((size, size), Image.Resampling.BILINEAR, box))
    return pixels[:, ::-1] if mirrored else pixels


def part(
    path: str, size: int, numbers: random.Random, smallest_area: float, most: int, quick: Quick
) -> tuple[np.ndarray, bool]:
    """A random part, and whether to mirror it, for somebody who resizes it; one of more than `most` pixels is resized here."""
    file = quick(path)
    width, height = (file.width, file.height) if file else dimensions(path)
    box = training_box(width, height, numbers, smallest_area)
    mirrored = numbers.random() < 0.5
    found = file.part(_pixels(box)) if file and _area(box) <= most else None
    return _by_pillow(path, box, size, most) if found is None else found, mirrored


def _by_pillow(path: str, box: Box, size: int, most: int) -> np.ndarray:
    with _opened(path) as image:
        box = _draft(image, box, size)
        cut, whole = _pixels(box), _coloured(image)
        return np.asarray(whole.crop(cut) if _area(cut) <= most else whole.resize((size, size), Image.Resampling.BILINEAR, box))


def _pixels(box: Box) -> Box:
    """A part that begins and ends with pixels, of which there is at least one each way."""
    left, top = int(box[0]), int(box[1])
    return left, top, left + max(1, round(box[2] - box[0])), top + max(1, round(box[3] - box[1]))


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _draft(image: Any, box: Box, size: int) -> Box:
    """Lets a JPEG file be decoded at 1/2, 1/4 or 1/8 where its part is large enough; returns where that lies then."""
    width, height = image.size
    scale = max(size / (box[2] - box[0]), size / (box[3] - box[1]))
    image.draft("RGB", (math.ceil(width * scale), math.ceil(height * scale)))
    across, down = image.size[0] / width, image.size[1] / height
    return box[0] * across, box[1] * down, min(box[2] * across, image.size[0]), min(box[3] * down, image.size[1])


def _coloured(image: Any) -> Any:
    return image if image.mode == "RGB" else image.convert("RGB")


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """An image file; one that Pillow cannot make sense of, or that promises absurd sizes, is named."""
    try:
        with Image.open(path) as image:
            yield image
    except Exception as error:  # Pillow raises half a dozen kinds for broken files
        raise Wrong(f"{path} cannot be decoded ({error}). Copy it again, or remove it.") from None
