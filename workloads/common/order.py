"""Which sample comes when: a function of seed, epoch and place alone, so that any number of ranks sees the same batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from common import schedule
from common.labels import Common

Chunks = Iterator["tuple[int, np.ndarray]"]  # epochs and the samples of one forward pass


@dataclass(frozen=True)
class Order:
    """The order in which one rank sees the samples of a data set while it trains.

    A step takes the next `batch * passes * ranks` samples, cut into chunks of `batch`: pass `p` of rank `r` has chunk
    `p * ranks + r`. What an epoch has beyond whole steps is left out; the next one has another order.
    """

    samples: int
    batch: int
    passes: int
    rank: int
    ranks: int
    seed: int
    shuffle: bool = True

    @classmethod
    def of(cls, settings: Common, samples: int, rank: int, ranks: int) -> Order:
        made = schedule.passes(settings, ranks)
        return cls(samples, settings.batch_size, made, rank, ranks, settings.seed, settings.do_shuffle)

    @property
    def steps(self) -> int:
        """Whole optimizer steps of an epoch."""
        return self.samples // (self.batch * self.passes * self.ranks)

    def permutation(self, epoch: int) -> np.ndarray:
        """All samples in the order of an epoch."""
        if not self.shuffle:
            return np.arange(self.samples)
        return np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(self.samples)

    def chunks(self, first: int = 0) -> Chunks:
        """The epoch and the samples of every forward pass of this rank from optimizer step `first` on, without end."""
        epoch, step = divmod(first, self.steps)
        while True:
            order = self.permutation(epoch)
            for chunk in range(step * self.passes, self.steps * self.passes):
                start = (chunk * self.ranks + self.rank) * self.batch
                yield epoch, order[start : start + self.batch]
            epoch, step = epoch + 1, 0


def shares(samples: int, batch: int, rank: int, ranks: int) -> Iterator[np.ndarray]:
    """The samples that a rank evaluates, in batches: each sample once over all ranks, the last batch as short as it is."""
    own = np.arange(rank, samples, ranks)
    for start in range(0, len(own), batch):
        yield own[start : start + batch]
