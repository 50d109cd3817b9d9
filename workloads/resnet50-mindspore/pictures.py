"""Images in the two layouts that people have, as batches of bytes: CIFAR-10's binary files, and JPEG files in folders.

How an image is cropped and flipped is a function of seed, epoch and sample, so that any number of ranks sees the same.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from common import pixels
from common.labels import Wrong
from common.order import Order, shares

SIDE, MARGIN = 32, 4  # of CIFAR-10's images, and how far a crop may lie outside
RECORD = 1 + 3 * SIDE * SIDE
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

    def __init__(self, files: list[Path]) -> None:
        records = np.concatenate([np.fromfile(file, np.uint8) for file in files])
        if len(records) % RECORD:
            raise Wrong(f"A file in {files[0].parent} is no whole number of records of {RECORD:,} bytes. Fetch it again.")
        records = records.reshape(-1, RECORD)
        self.labels = records[:, 0].astype(np.int32)
        self.classes = int(self.labels.max()) + 1
        self.images = records[:, 1:].reshape(-1, 3, SIDE, SIDE)

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
    """JPEG files, one folder per class; decoded at the smallest scale that serves."""

    def __init__(self, folder: Path, numbers: dict[str, int], size: int, smallest_area: float) -> None:
        self.classes, self.size, self.smallest_area = len(numbers), size, smallest_area
        found = [(path, number) for name, number in numbers.items() for path in _files(folder / name)]
        if not found:
            raise Wrong(f"There are no images in {folder}. Put those of each class into a folder of its own.")
        self.paths = np.array([os.fsencode(path) for path, _ in found])  # one object, which forked workers share
        self.labels = np.array([number for _, number in found], np.int32)

    def train(self, samples: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        return self._stacked(samples, [pixels.choice(seed, epoch, int(sample)) for sample in samples])

    def plain(self, samples: np.ndarray) -> np.ndarray:
        return self._stacked(samples, [None] * len(samples))

    def _stacked(self, samples: np.ndarray, chances: Sequence[random.Random | None]) -> np.ndarray:
        paths = [os.fsdecode(path) for path in self.paths[samples]]
        images = [pixels.decode(path, self.size, chance, self.smallest_area) for path, chance in zip(paths, chances)]
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


def find(folder: Path, size: int, smallest_area: float) -> tuple[Pictures, Pictures]:
    """The images to train on and those to evaluate, in whichever layout they lie there."""
    if batches := _binary(folder, "data_batch_*.bin", "train"):
        tests = _binary(folder, "test_batch.bin", "eval", "val", "test")
        if not tests:
            raise Wrong(f"There is no test_batch.bin in {folder}. Put it beside the batches, or into eval/.")
        return Cifar(batches), Cifar(tests)
    folders = [folder / "train", folder / "val"]
    if missing := [path for path in folders if not path.is_dir()]:
        raise Wrong(f"There is neither {missing[0]} nor data_batch_1.bin. Name the directory of the data set with --data_path.")
    names = sorted(entry.name for entry in os.scandir(folders[0]) if entry.is_dir())
    numbers = {name: number for number, name in enumerate(names)}
    train, val = (Folders(path, numbers, size, smallest_area) for path in folders)
    return train, val


def _binary(folder: Path, name: str, *below: str) -> list[Path]:
    """CIFAR-10's files: flat, as in its archive, or in `train` and `eval` as ModelArts' guides have them."""
    for place in ("", "cifar-10-batches-bin", *below):
        if files := sorted((folder / place).glob(name)):
            return files
    return []


def _files(folder: Path) -> list[str]:
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted(str(folder / name) for name in names if name.lower().endswith(pixels.ENDINGS))
