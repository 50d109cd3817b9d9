"""The times of a run: its attempts, and its phases, each from the first rank that begins it to the last that ends it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from muster.bench.model.codec import END_OF_TIME
from muster.bench.model.result import Phase
from muster.job import Job
from muster.metrics.observed import SKEW, Observed
from muster.metrics.recorded import Edge
from muster.metrics.values import Value
from muster.records.files import read_events
from muster.records.layout import AttemptDir, RunDir
from muster.records.ranks import ranks
from muster.records.untrusted import number

ALWAYS = ("prepare", "dataload", "proc", "total")  # AISBench's, asked for in every result
OUTSIDE = Phase(reason="its times lie outside of the attempt; the clock of a rank is wrong or was set")


def moment(value: Any) -> float | None:
    """A time that a clock can have shown; None for anything else."""
    time = number(value)
    return time if time is not None and 0 <= time < END_OF_TIME else None


@dataclass(frozen=True)
class Timeline:
    attempt: int | None = None
    started: float | None = None
    ended: float | None = None
    first_rank: float | None = None  # when the first rank started
    last_rank: float | None = None
    unstarted: str = "there was no attempt"  # why the start of the ranks is not known


def read_timeline(run: RunDir, attempt: AttemptDir, job: Job) -> Timeline:
    """When an attempt and its ranks started and ended, as supervisor and agents wrote it down."""
    events = [event for event in read_events(run.events) if event.get("attempt") == attempt.number]
    times = {event.get("event"): moment(event.get("time")) for event in events}
    programs = [entry for entry in ranks(attempt, job, ended=True) if entry.rank is not None]
    starts = [started for entry in programs if (started := moment(entry.started)) is not None]
    missing = [entry.process for entry in programs if moment(entry.started) is None]
    return Timeline(
        attempt.number,
        times.get("attempt"),
        times.get("attempt-ended"),
        min(starts, default=None),
        None if missing else max(starts, default=None),
        f"{missing[0].replace('-', ' ')} was never started" if missing else "",
    )


Attempt: TypeAlias = tuple[Timeline, Phase]
"""When an attempt ran, and its phase `proc`."""


def within(timeline: Timeline, *moments: float | None) -> bool:
    """True if all moments lie in an attempt, give or take what the clocks of nodes may differ by."""
    first = -math.inf if timeline.started is None else timeline.started - SKEW
    last = math.inf if timeline.ended is None else timeline.ended + SKEW
    return all(first <= moment <= last for moment in moments if moment is not None)


def phases(observed: Observed, timeline: Timeline) -> dict[str, Phase]:
    """All phases by name: AISBench's first, then what else the script recorded."""
    edges: dict[str, list[tuple[int, Edge]]] = {}
    for rank, of in observed.edges.items():
        for edge in of:
            if moment(edge.t) is not None:
                edges.setdefault(edge.name, []).append((rank, edge))
    recorded = {name: _recorded(edges.get(name, [])) for name in dict.fromkeys((*ALWAYS, *sorted(edges)))}
    found = {name: phase if within(timeline, phase.start, phase.end) else OUTSIDE for name, phase in recorded.items()}
    if found["prepare"].start is None and found["prepare"].end is None:
        found["prepare"] = _prepared(timeline)
    found["total"] = _whole(timeline)
    return found


def _recorded(edges: Sequence[tuple[int, Edge]]) -> Phase:
    """A phase from the edges of all ranks; a rank that never ended it leaves the end open."""
    starts = [edge.t for _, edge in edges if edge.edge == "start"]
    ends = [edge.t for _, edge in edges if edge.edge == "end"]
    if not starts and not ends:
        return Phase(reason="no rank recorded it")
    open_ends = Counter(rank for rank, edge in edges if edge.edge == "start")
    open_ends.subtract(Counter(rank for rank, edge in edges if edge.edge == "end"))
    unended = sorted(rank for rank, count in open_ends.items() if count > 0)
    unbegun = sorted(rank for rank, count in open_ends.items() if count < 0)
    start, end = None if unbegun else min(starts), None if unended else max(ends)
    if unbegun or unended:
        reason = f"rank {(unbegun or unended)[0]} never recorded its {'start' if unbegun else 'end'}"
        return Phase.between(start, end, reason)
    if end is not None and start is not None and end < start:
        return Phase(reason="its end was recorded before its start")
    return Phase.between(start, end)


def _prepared(timeline: Timeline) -> Phase:
    """The time until the last rank started, in which Muster prepared the attempt."""
    if timeline.started is None or timeline.last_rank is None:
        return Phase.between(timeline.started, None, timeline.unstarted or "the attempt has no recorded start")
    return Phase.between(timeline.started, timeline.last_rank)


def _whole(timeline: Timeline) -> Phase:
    missing = [word for word, time in (("start", timeline.started), ("end", timeline.ended)) if time is None]
    reason = f"the attempt has no recorded {missing[0]}" if missing else None
    return Phase.between(timeline.started, timeline.ended, reason)


def training_start(attempts: Sequence[Attempt]) -> Value:
    """When the first attempt whose ranks ran began to train; the start of that attempt where the script never says so."""
    ran = [(times, proc) for times, proc in attempts if times.first_rank is not None or proc.start is not None]
    if not ran:
        return Value(reason="no rank is on record as started")
    times, proc = ran[0]
    if proc.start is not None:
        return Value(proc.start)
    if any(later.start is not None for _, later in ran):
        return Value(reason=f"nothing tells when its training began, in attempt {times.attempt}: {proc.reason}")
    return Value(times.started) if times.started is not None else Value(reason="its first attempt has no recorded start")
