"""CIFAR-10's binary files, kept on the device whole: batches are cut, shifted and mirrored there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from common import layouts
from common.feeding import Batch
from common.layouts import SIDE
from common.order import Order

MARGIN = 4


class Cifar:
    """One part of the data set, train or val, with random numbers that are a function of seed, epoch and image."""

    def __init__(self, folder: Path, part: str, device: torch.device, classes: int = 0) -> None:
        labels, images = layouts.cifar(folder, part, classes)
        self.images = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 2, 3, 1))).to(device)
        self.labels = torch.from_numpy(labels.astype(np.int64)).to(device)

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
        line = torch.arange(SIDE, device=index.device)
        rows = top[:, None] + line
        columns = left[:, None] + torch.where(mirrored[:, None] > 0, SIDE - 1 - line, line)
        return padded[index[:, None, None], rows[:, :, None], columns[:, None, :]], self.labels[index]

    def evaluation(self, shares: Iterator[np.ndarray]) -> Iterator[Batch]:
        """The images of a rank's share as they are."""
        for chosen in shares:
            index = torch.from_numpy(chosen).to(self.images.device)
            yield self.images[index], self.labels[index]


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
