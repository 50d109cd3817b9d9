"""Learning rates as pure functions of the step, and how many steps a training takes; plain Python."""

from __future__ import annotations

import math
import os

from common.labels import Common, Wrong

KINDS = ("cosine", "poly", "linear", "constant")
MOST_UNTIMED = 20


def rate(
    step: int, steps: int, peak: float, warmup: int = 0, kind: str = "cosine", end: float = 0.0, power: float = 2.0
) -> float:
    """The rate of optimizer step `step` (from 0): linear warm-up from `peak / warmup`, then down to `end` after the last."""
    if step < warmup:
        return peak * (step + 1) / warmup
    left = 1 - (step - warmup) / max(1, steps - warmup)
    if kind == "cosine":
        return end + (peak - end) * (1 + math.cos(math.pi * (1 - left))) / 2
    if kind in ("poly", "linear"):
        return end + (peak - end) * left ** (power if kind == "poly" else 1)
    if kind == "constant":
        return peak
    raise Wrong(f"`{kind}` is no schedule. Take one of {', '.join(KINDS)}.")


def passes(settings: Common, ranks: int) -> int:
    """Forward passes per optimizer step of each rank, from global_batch where that is given."""
    if not settings.global_batch:
        return settings.accumulation_steps
    share, rest = divmod(settings.global_batch, settings.batch_size * ranks)
    if rest or not share:
        made = f"{ranks} ranks with {settings.batch_size} samples each"
        raise Wrong(f"A global_batch of {settings.global_batch} cannot be made by {made}. Take a multiple of that.")
    return share


def lengths(settings: Common, samples: int, ranks: int) -> tuple[int, int]:
    """Optimizer steps of one epoch and of the whole training; train_steps wins over epoch_size."""
    batch = settings.batch_size * ranks * passes(settings, ranks)
    epoch = samples // batch
    if not epoch:
        raise Wrong(f"There are {samples:,} samples, and one step takes {batch:,}. Take a smaller batch or more data.")
    return epoch, settings.train_steps or settings.epoch_size * epoch


def untimed(settings: Common, steps: int) -> int:
    """Steps before throughput counts: what a label or the job file says, else a tenth of all, but no more than 20."""
    if settings.timer_warmup >= 0:
        return settings.timer_warmup
    return int(os.environ.get("MUSTER_WARMUP") or 0) or min(steps // 10, MOST_UNTIMED)


def interval(steps: int, epochs: int, epoch: int) -> int:
    """The distance in optimizer steps between two events that a label gives in steps or in epochs; 0 for never."""
    return steps or epochs * epoch
