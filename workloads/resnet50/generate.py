"""Writes a small data set that a model can learn from: python generate.py FOLDER --layout=imagenet --classes=10 --train=2000

A class is a shape with a texture, and a hue where there are many classes; place, size, colours and noise are chance. The same
arguments always give the same files. A folder that exists is left alone, and one appears only when it is complete.
"""

from __future__ import annotations

import argparse
import colorsys
import io
import os
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

SHAPES = ("disc", "square", "diamond", "ring", "cross")
TEXTURES = ("plain", "stripes", "columns", "checks")
COMBINATIONS = len(SHAPES) * len(TEXTURES)
BLOCK = 500  # images that are made at a time, at most
BLOCK_PIXELS = 1 << 23  # those of a block, together
QUALITY = 90
CIFAR = 32


def pictures(labels: np.ndarray, size: int, classes: int, random: np.random.Generator) -> np.ndarray:
    """One picture for each label: uint8, count × size × size × 3."""
    count = len(labels)
    grid = np.arange(size, dtype=np.float32)
    radius = random.uniform(0.25, 0.38, (count, 1, 1)).astype(np.float32) * size
    centre = random.uniform(0.4, 0.6, (2, count, 1, 1)).astype(np.float32) * size
    y, x = np.abs(grid[:, None] - centre[0]) / radius, np.abs(grid[None, :] - centre[1]) / radius
    inside = _inside(labels % len(SHAPES), y, x)
    texture = _texture(labels // len(SHAPES) % len(TEXTURES), grid, size, random)
    front, back = _colours(labels, classes, random)
    picture = np.where((inside * texture)[..., None] > 0.5, front, back)
    picture += random.normal(0, 18, picture.shape).astype(np.float32)
    return picture.clip(0, 255).astype(np.uint8)


def _inside(shape: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Which pixels belong to the shape, from their distances to its centre in radii."""
    distance = np.sqrt(y * y + x * x)
    masks = (
        distance < 1,
        np.maximum(y, x) < 0.88,
        y + x < 1.2,
        (distance < 1.1) & (distance > 0.6),
        (np.minimum(y, x) < 0.35) & (np.maximum(y, x) < 1.1),
    )
    return np.select([(shape == number)[:, None, None] for number in range(len(masks))], masks)


def _texture(kind: np.ndarray, grid: np.ndarray, size: int, random: np.random.Generator) -> np.ndarray:
    """Which pixels of a shape are coloured: all, every second line, column or field of a board."""
    period = max(2, size // 10)
    shift = random.integers(0, 2 * period, (2, len(kind), 1, 1))
    lines = (grid[:, None] + shift[0]) // period % 2 > 0
    columns = (grid[None, :] + shift[1]) // period % 2 > 0
    lines, columns = np.broadcast_arrays(lines, columns)
    masks = (np.ones_like(lines), lines, columns, lines ^ columns)
    return np.select([(kind == number)[:, None, None] for number in range(len(masks))], masks)


def _colours(labels: np.ndarray, classes: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A bright colour and a dark one for each picture; only with many classes does the hue tell something."""
    hues = -(-classes // COMBINATIONS)
    chance = random.uniform(0, 1, (2, len(labels)))
    hue = chance[0] if hues == 1 else (labels // COMBINATIONS + 0.6 * chance[0]) / hues
    light, dark = random.uniform(170, 255, len(labels)), random.uniform(20, 90, len(labels))
    front = [np.array(colorsys.hsv_to_rgb(h, 0.7, 1)) * value for h, value in zip(hue, light)]
    back = [np.array(colorsys.hsv_to_rgb(h, 0.7, 1)) * value for h, value in zip(chance[1], dark)]
    return np.array(front, np.float32)[:, None, None], np.array(back, np.float32)[:, None, None]


def block(name: str, numbers: range, size: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and pictures of one block of a part of the data set; every class is as frequent as the others."""
    random = np.random.default_rng([seed, ("train", "val").index(name), numbers.start // length(size)])
    labels = random.permutation(np.array(numbers) % classes)
    return labels, pictures(labels, size, classes, random)


def length(size: int) -> int:
    """How many images are made at a time: all CPUs do so at once, and large images take much memory."""
    return max(1, min(BLOCK, BLOCK_PIXELS // size**2))


def blocks(count: int, size: int) -> list[range]:
    """The numbers of all images, cut into blocks."""
    return [range(start, min(count, start + length(size))) for start in range(0, count, length(size))]


def write_imagenet(folder: Path, name: str, count: int, size: int, classes: int, seed: int) -> None:
    """`train/<class>/<number>.JPEG`, as the folders of ImageNet are."""
    for label in range(classes):
        (folder / name / f"n{label:08d}").mkdir(parents=True)

    def write(numbers: range) -> None:
        for number, label, image in zip(numbers, *block(name, numbers, size, classes, seed)):
            encoded = io.BytesIO()
            Image.fromarray(image).save(encoded, "JPEG", quality=QUALITY)
            (folder / name / f"n{label:08d}" / f"{number:08d}.JPEG").write_bytes(encoded.getvalue())

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(write, blocks(count, size)))


def write_cifar(folder: Path, name: str, count: int, classes: int, seed: int) -> None:
    """CIFAR-10's binary files: a byte for the label, then 1,024 bytes of red, of green, of blue."""

    def rows(numbers: range) -> np.ndarray:
        labels, images = block(name, numbers, CIFAR, classes, seed)
        planes = images.transpose(0, 3, 1, 2).reshape(len(labels), -1)
        return np.concatenate([labels[:, None].astype(np.uint8), planes], axis=1)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        table = np.concatenate(list(threads.map(rows, blocks(count, CIFAR))))
    if name == "val":
        (folder / "test_batch.bin").write_bytes(table.tobytes())
        return
    for number, part in enumerate(np.array_split(table, 5), 1):
        (folder / f"data_batch_{number}.bin").write_bytes(part.tobytes())


def generate(folder: Path, layout: str, classes: int, train: int, val: int, size: int, seed: int) -> None:
    """The whole data set, under a temporary name until it is complete; who comes second has nothing to do."""
    if folder.exists():
        return
    temporary = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(4)}")  # nodes may number their processes alike
    temporary.mkdir(parents=True)
    try:
        for name, count in (("train", train), ("val", val)):
            if layout == "cifar10":
                write_cifar(temporary, name, count, classes, seed)
            else:
                write_imagenet(temporary, name, count, size, classes, seed)
        temporary.rename(folder)
    except OSError:
        if not folder.exists():  # else another node was quicker with the same files
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layout", choices=("imagenet", "cifar10"), default="imagenet")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--train", type=int, default=2000, help="how many images to train with")
    parser.add_argument("--val", type=int, default=500, help="how many images to evaluate with")
    parser.add_argument("--size", type=int, default=40, help="their height and width; CIFAR-10's are 32")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.layout == "cifar10" and chosen.classes > 256:
        parser.error("CIFAR-10's files have one byte for the class. Take --classes=256 or fewer.")
    if min(chosen.classes, chosen.train, chosen.val, chosen.size) < 1:
        parser.error("--classes, --train, --val and --size take numbers from 1 on.")
    try:
        generate(chosen.folder, chosen.layout, chosen.classes, chosen.train, chosen.val, chosen.size, chosen.seed)
    except OSError as error:
        parser.error(f"{chosen.folder} cannot be written: {error.strerror}. Make room, or name another directory.")


if __name__ == "__main__":
    main()
