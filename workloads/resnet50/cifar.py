"""CIFAR-10's binary files, kept on the device whole: batches are cut, shifted and mirrored there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from common.feeding import Batch
from common.labels import Wrong
from common.order import Order

SIZE = 32
ROW = 1 + 3 * SIZE * SIZE  # a byte for the label, then the colours one after the other
MARGIN = 4


def found(folder: Path) -> bool:
    """Whether a folder holds CIFAR-10: flat as in its archive, or in `train` and `eval` as ModelArts' guides have it."""
    return bool(_files(folder, "train"))


def of_python(folder: Path) -> bool:
    """Whether a folder holds the other version of CIFAR-10, pickled for Python."""
    return any((folder / place / "data_batch_1").exists() for place in ("", "cifar-10-batches-py", "train"))


def _files(folder: Path, part: str) -> list[Path]:
    name, below = ("data_batch_*.bin", ("train",)) if part == "train" else ("test_batch.bin", ("eval", "val", "test"))
    for place in ("", "cifar-10-batches-bin", *below):
        if files := sorted((folder / place).glob(name)):
            return files
    return []


class Cifar:
    """One part of the data set, train or val, with random numbers that are a function of seed, epoch and image."""

    def __init__(self, folder: Path, part: str, device: torch.device) -> None:
        files = _files(folder, part)
        if not files:
            wanted = "data_batch_1.bin" if part == "train" else "test_batch.bin"
            raise Wrong(f"{folder} has no {wanted}. Put CIFAR-10's binary files there, or make some with generate.py.")
        table = np.concatenate([_rows(path) for path in files])
        images = table[:, 1:].reshape(-1, 3, SIZE, SIZE).transpose(0, 2, 3, 1)
        self.images = torch.from_numpy(np.ascontiguousarray(images)).to(device)
        self.labels = torch.from_numpy(table[:, 0].astype(np.int64)).to(device)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def batches(self, order: Order, first: int) -> Iterator[Batch]:
        """What a rank trains on from a step on."""
        padded = functional.pad(self.images, (0, 0, MARGIN, MARGIN, MARGIN, MARGIN))
        for epoch, chosen in order.chunks(first):
            numbers = torch.from_numpy(_random(order.seed, epoch, chosen))
            index = torch.from_numpy(chosen)
            if self.images.is_cuda:
                numbers, index = numbers.pin_memory(), index.pin_memory()
            device = self.images.device
            yield self._cut(padded, index.to(device, non_blocking=True), *numbers.to(device, non_blocking=True))

    def _cut(self, padded: Tensor, index: Tensor, top: Tensor, left: Tensor, mirrored: Tensor) -> Batch:
        line = torch.arange(SIZE, device=index.device)
        rows = top[:, None] + line
        columns = left[:, None] + torch.where(mirrored[:, None] > 0, SIZE - 1 - line, line)
        return padded[index[:, None, None], rows[:, :, None], columns[:, None, :]], self.labels[index]

    def evaluation(self, shares: Iterator[np.ndarray]) -> Iterator[Batch]:
        """The images of a rank's share as they are."""
        for chosen in shares:
            index = torch.from_numpy(chosen).to(self.images.device)
            yield self.images[index], self.labels[index]


def _rows(path: Path) -> np.ndarray:
    data = np.fromfile(path, dtype=np.uint8)
    if not len(data) or len(data) % ROW:
        raise Wrong(f"{path} has {len(data):,} bytes, which is no multiple of {ROW:,}. It is not whole: copy it again.")
    return data.reshape(-1, ROW)


def _random(seed: int, epoch: int, chosen: np.ndarray) -> np.ndarray:
    """Shift down, shift right and mirroring of each image, whatever the batch that it is in."""
    bits = mixed(np.uint64(seed * 1_000_003 + epoch) ^ mixed(chosen.astype(np.uint64)))
    down, right = bits % np.uint64(2 * MARGIN + 1), (bits >> np.uint64(16)) % np.uint64(2 * MARGIN + 1)
    return np.stack([down, right, (bits >> np.uint64(32)) & np.uint64(1)]).astype(np.int64)


def mixed(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finisher: numbers that look random, one for each value."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: np.ndarray = values ^ (values >> np.uint64(31))
    return spread


