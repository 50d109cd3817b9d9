"""Image files as pixels: which part of an image is wanted, and that part decoded; NumPy and Pillow alone.

What chance does to an image is a function of seed, epoch and image, so that any number of ranks sees the same.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image

from common.labels import Wrong

ENDINGS = (".jpeg", ".jpg", ".png")
Box = tuple[float, float, float, float]


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


def whole(path: str) -> np.ndarray:
    """An image as it is, height × width × 3."""
    with _opened(path) as image:
        return np.array(image.convert("RGB"))


def decode(path: str, size: int, numbers: random.Random | None, smallest_area: float) -> np.ndarray:
    """One image, size × size × 3; with `numbers` a random part, perhaps mirrored, else the middle."""
    with _opened(path) as image:
        width, height = image.size
        box = training_box(width, height, numbers, smallest_area) if numbers else evaluation_box(width, height, size)
        mirrored = bool(numbers and numbers.random() < 0.5)
        scale = max(size / (box[2] - box[0]), size / (box[3] - box[1]))
        image.draft("RGB", (math.ceil(width * scale), math.ceil(height * scale)))  # JPEG can be decoded at 1/2, 1/4 and 1/8
        across, down = image.size[0] / width, image.size[1] / height
        scaled = (box[0] * across, box[1] * down, min(box[2] * across, image.size[0]), min(box[3] * down, image.size[1]))
        coloured = image if image.mode == "RGB" else image.convert("RGB")
        pixels = np.asarray(coloured.resize((size, size), Image.Resampling.BILINEAR, scaled))
    return pixels[:, ::-1] if mirrored else pixels


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """An image file; one that Pillow cannot make sense of, or that promises absurd sizes, is named."""
    try:
        with Image.open(path) as image:
            yield image
    except Exception as error:  # Pillow raises half a dozen kinds for broken files
        raise Wrong(f"{path} cannot be decoded ({error}). Copy it again, or remove it.") from None
