"""When the training of a run began, which may have taken several attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from muster.bench.phases import Phase
from muster.bench.timeline import Timeline
from muster.metrics.values import Value

Attempt: TypeAlias = tuple[Timeline, Phase]
"""When an attempt ran, and its phase `proc`."""


def began(attempts: Sequence[Attempt]) -> Value:
    """When the first attempt whose ranks ran began to train; that attempt's start where the script never says so."""
    ran = [(times, proc) for times, proc in attempts if times.first_rank is not None or proc.start is not None]
    if not ran:
        return Value(reason="no rank is on record as started")
    times, proc = ran[0]
    if proc.start is not None:
        return Value(proc.start)
    if any(later.start is not None for _, later in ran):
        return Value(reason=f"nothing tells when its training began, in attempt {times.attempt}: {proc.reason}")
    return Value(times.started) if times.started is not None else Value(reason="its first attempt has no recorded start")
