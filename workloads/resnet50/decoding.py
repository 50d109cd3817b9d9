"""A process that decodes JPEG files into memory that it shares with the training: NumPy and Pillow alone, no PyTorch.

It is started with two sockets and a piece of memory by `images.Decoders`, works on one task after the other, and ends when the
training does: its socket is closed then, however that came.
"""

from __future__ import annotations

import json
import math
import mmap
import random
import socket
import sys
from typing import Any

import numpy as np
from PIL import Image

LARGEST = 1 << 17  # bytes of one task
BROKEN = (OSError, ValueError, SyntaxError)  # what Pillow raises for broken files
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
    side = min(width, height)
    return _middle(width, height, side, side)


def evaluation_box(width: int, height: int, size: int) -> Box:
    """The middle of an image whose shorter side would be 256 where 224 are wanted."""
    side = min(width, height) * 224 / 256 if size >= 224 else min(width, height)
    return _middle(width, height, side, side)


def _middle(width: int, height: int, w: float, h: float) -> Box:
    return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2


def choice(seed: int, epoch: int, index: int) -> random.Random:
    """The chance of one image in one epoch, the same in whatever batch and rank it is."""
    return random.Random((seed * 1_000_003 + epoch) << 32 | index)


def whole(path: str) -> np.ndarray:
    """An image as it is, height × width × 3."""
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


def decode(path: str, size: int, numbers: random.Random | None, smallest_area: float) -> np.ndarray:
    """One image, size × size × 3; with `numbers` a random part, perhaps mirrored, else the middle."""
    with Image.open(path) as image:
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


def told(path: str, error: Exception) -> str:
    """What to do about a file that is broken."""
    return f"{path} cannot be decoded ({error}). Copy it again, or remove it."


def work(tasks: socket.socket, results: socket.socket, memory: np.ndarray, size: int, seed: int, smallest_area: float) -> None:
    """Decodes the images of each task into its rows of the memory and tells when they are there."""
    while message := tasks.recv(LARGEST):
        ticket, training, epoch, images = json.loads(message)
        answer: list[Any] = [ticket, len(images), ""]
        for row, index, path in images:
            try:
                memory[row] = decode(path, size, choice(seed, epoch, index) if training else None, smallest_area)
            except BROKEN as error:
                answer[2] = told(path, error)
        results.send(json.dumps(answer).encode())


def main(tasks: int, results: int, memory: int, rows: int, size: int, seed: int, permille: int) -> None:
    shared = np.frombuffer(mmap.mmap(memory, 0), dtype=np.uint8)[: rows * size * size * 3].reshape(rows, size, size, 3)
    try:
        work(socket.socket(fileno=tasks), socket.socket(fileno=results), shared, size, seed, permille / 1000)
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass  # the training has ended


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
