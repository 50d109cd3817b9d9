"""Batches of BERT's sequences, padded or packed: for training, for validation, and random ones for the speed alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from common.labels import Wrong
from common.order import Order, shares
from common.world import World
from sequences import Rows, Sequences

GRAINS = 8  # packed tokens are filled up to eighths of the padded ones, so that there are few shapes to compile for
Tensors = tuple[Tensor, ...]


def training(sequences: Sequences, order: Order, first: int, vocabulary: int, packed: bool) -> Iterator[Tensors]:
    """The batches of this rank from optimizer step `first` on, without end.

    A masked token counts the same in every rank's loss: one through their number in the whole global batch.
    """
    of_step, current = np.empty(0), -1
    weights, passes, full = sequences.weights, order.passes, sequences.full
    for number, (epoch, samples) in enumerate(order.chunks(first), first * passes):
        if epoch != current:
            whole = order.permutation(epoch)[: order.steps * order.batch * passes * order.ranks]
            of_step, current = weights[whole].reshape(order.steps, -1).sum(1), epoch
        share = passes * order.ranks / max(1.0, of_step[number // passes % order.steps])
        rows = sequences.rows(samples)
        if max(rows["tokens"].max(), rows["targets"].max()) >= vocabulary:
            raise unknown(vocabulary)
        yield batch(rows, share, full, packed)


def unknown(vocabulary: int) -> Wrong:
    return Wrong(f"The data has words beyond the {vocabulary:,} of the network. Take another with --bert_network.")


def validation(sequences: Sequences, size: int, world: World, packed: bool) -> Iterator[Tensors]:
    """Every sequence once over all ranks; the last batch of a rank is filled up with some that weigh nothing."""
    full = sequences.full
    for samples in shares(len(sequences), size, world.rank, world.size):
        rows = sequences.rows(np.resize(samples, size))
        rows["weights"][len(samples) :] = 0
        yield batch(rows, 0.0, full, packed)


def batch(rows: Rows, share: float, full: bool, packed: bool) -> Tensors:
    """The tensors that `bert.Batch.of` takes."""
    count, length = rows["tokens"].shape
    starts = np.arange(count) * length
    tokens, segments, rest = rows["tokens"].reshape(-1), rows["segments"].reshape(-1), []
    if packed:
        inside = np.arange(length) < rows["lengths"][:, None]
        kept = np.flatnonzero(inside)
        grain = -(-count * length // GRAINS)
        filling = -len(kept) % grain
        tokens, segments = (np.pad(array[kept], (0, filling)) for array in (tokens, segments))
        starts = np.cumsum(rows["lengths"], dtype=np.int64) - rows["lengths"]
        rest = [np.pad(kept % length, (0, filling)), _bounds(starts, len(kept), filling, length, grain)]
    elif not full:
        rest = [rows["lengths"].astype(np.int64)]
    masked = (starts[:, None] + rows["positions"]).reshape(-1)
    targets, weights = rows["targets"].reshape(-1), rows["weights"].reshape(-1)
    arrays = [tokens, segments, starts, rows["follows"], masked, targets.astype(np.int64), weights, np.float32(share), *rest]
    return tuple(torch.from_numpy(np.asarray(array)) for array in arrays)


def synthetic(size: int, length: int, masked: int, vocabulary: int, device: torch.device, sets: int = 4) -> Iterator[Tensors]:
    """Full sequences of random tokens, made on the device; a few of such batches take turns without end."""
    turns = [_random(size, length, masked, vocabulary, device) for _ in range(sets)]
    while True:
        yield from turns


def _random(size: int, length: int, masked: int, vocabulary: int, device: torch.device) -> Tensors:
    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, device=device)

    starts = torch.arange(size, device=device) * length
    second = torch.arange(length, device=device) >= draw(length, size, 1)
    positions = torch.rand(size, length, device=device).topk(masked).indices
    return (
        draw(vocabulary, size * length).int(),
        second.flatten().to(torch.uint8),
        starts,
        draw(2, size),
        (starts[:, None] + positions).flatten(),
        draw(vocabulary, size * masked),
        torch.ones(size * masked, device=device),
        torch.tensor(1 / (size * masked), device=device),
    )


def _bounds(starts: np.ndarray, end: int, filling: int, length: int, grain: int) -> np.ndarray:
    """Where packed sequences begin; what fills up is cut into sequences that are no longer than others."""
    most = -(-grain // length)
    fillers = np.minimum(end + np.arange(most + 1) * length, end + filling)
    return np.concatenate([starts, fillers]).astype(np.int32)
