"""Images in the two layouts that people have, as batches of bytes: CIFAR-10's binary files, and JPEG files in folders.

How an image is cropped and flipped is a function of seed, epoch and sample, so that any number of ranks sees the same.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from common import layouts, pixels
from common.layouts import SIDE, Place
from common.order import Order, shares

MARGIN = 4  # how far a crop of CIFAR-10's images may lie outside
SYNTHETIC = 1_281_167  # images, as many as ImageNet has
Batch = tuple[np.ndarray, np.ndarray]


class Pictures(Protocol):
    """A data set: how many images of which size and how many classes, and any of them as bytes, channels first."""

    labels: np.ndarray
    classes: int
    size: int

    def train(self, samples: np.ndarray, seed: int, epoch: int) -> np.ndarray: ...

    def plain(self, samples: np.ndarray) -> np.ndarray: ...


class Cifar:
    """Records of one label and three planes of 32×32 bytes, kept in memory."""

    size = SIDE

    def __init__(self, folder: Path, part: str, classes: int) -> None:
        labels, self.images = layouts.cifar(folder, part, classes)
        self.labels = labels.astype(np.int32)
        self.classes = int(self.labels.max()) + 1

    def train(self, samples: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        chance = np.random.Generator(np.random.PCG64([seed, epoch, 1]))
        moves = chance.integers(0, 2 * MARGIN + 1, (len(self.labels), 2))[samples]
        flips = chance.random(len(self.labels))[samples] < 0.5
        padded = np.pad(self.images[samples], ((0, 0), (0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), (2, 3))
        crops = windows[np.arange(len(samples)), :, moves[:, 0], moves[:, 1]]
        mirrored: np.ndarray = np.where(flips[:, None, None, None], crops[..., ::-1], crops)
        return mirrored

    def plain(self, samples: np.ndarray) -> np.ndarray:
        shown: np.ndarray = self.images[samples]
        return shown


class Folders:
    """JPEG files, one folder per class, decoded by threads: Pillow works outside of Python's lock."""

    def __init__(self, folder: Path, names: Sequence[str], size: int, smallest_area: float, pool: Executor) -> None:
        paths, labels, self.names = layouts.folders(folder, names)
        self.classes, self.size, self.smallest_area = len(self.names), size, smallest_area
        self.pool = pool
        self.paths = np.array([os.fsencode(path) for path in paths])
        self.labels = np.array(labels, np.int32)

    def train(self, samples: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        return self._stacked(samples, [pixels.choice(seed, epoch, int(sample)) for sample in samples])

    def plain(self, samples: np.ndarray) -> np.ndarray:
        return self._stacked(samples, [None] * len(samples))

    def _stacked(self, samples: np.ndarray, chances: Sequence[random.Random | None]) -> np.ndarray:
        paths = [os.fsdecode(path) for path in self.paths[samples]]
        sizes, areas = itertools.repeat(self.size), itertools.repeat(self.smallest_area)
        images = list(self.pool.map(pixels.decode, paths, sizes, chances, areas))
        return np.stack(images).transpose(0, 3, 1, 2)


class Synthetic:
    """Random images that are made once: what device and network can do without a disk."""

    def __init__(self, classes: int, size: int) -> None:
        self.classes, self.size = classes, size
        self.labels = np.arange(SYNTHETIC, dtype=np.int32) % classes
        self.images = np.random.default_rng(1).integers(0, 256, (1024, 3, size, size), np.uint8)

    def train(self, samples: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        return self.plain(samples)

    def plain(self, samples: np.ndarray) -> np.ndarray:
        shown: np.ndarray = self.images[samples % len(self.images)]
        return shown


@dataclass(frozen=True)
class Training:
    """What a rank trains on, by step: MindSpore's workers ask for any of them."""

    pictures: Pictures
    order: Order
    first: int
    steps: int

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, index: int) -> Batch:
        passes = list(itertools.islice(self.order.chunks(self.first + int(index)), self.order.passes))
        samples = np.concatenate([chunk for _, chunk in passes])
        images = self.pictures.train(samples, self.order.seed, passes[0][0])
        return np.ascontiguousarray(images), self.pictures.labels[samples]


class Evaluation:
    """What a rank evaluates, in batches of one size: the last is filled up with label -1, which nothing is."""

    def __init__(self, pictures: Pictures, batch: int, rank: int, ranks: int) -> None:
        self.pictures, self.batch = pictures, batch
        self.shares = list(shares(len(pictures.labels), batch, rank, ranks))

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, index: int) -> Batch:
        samples = self.shares[int(index)]
        images, labels = self.pictures.plain(samples), self.pictures.labels[samples]
        missing = self.batch - len(samples)
        filled = np.pad(images, ((0, missing), (0, 0), (0, 0), (0, 0)))
        return filled, np.pad(labels, (0, missing), constant_values=-1)


def find(place: Place, classes: int, size: int, smallest_area: float, workers: int) -> tuple[Pictures, Pictures]:
    """The images to train on and those to evaluate."""
    if place.is_cifar:
        return Cifar(place.train, "train", classes), Cifar(place.val, "val", classes)
    pool = ThreadPoolExecutor(workers)
    train = Folders(place.train, (), size, smallest_area, pool)
    return train, Folders(place.val, train.names, size, smallest_area, pool)
