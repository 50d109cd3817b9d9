"""The phases of a run: from the first rank that begins one to the last that ends it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.bench.timeline import Timeline, moment
from muster.metrics.observed import SKEW, Observed
from muster.metrics.recorded import Edge

ALWAYS = ("prepare", "dataload", "proc", "total")  # AISBench's, asked for in every result


@dataclass(frozen=True)
class Phase:
    start: float | None = None
    end: float | None = None
    reason: str | None = None

    @property
    def seconds(self) -> float | None:
        return self.end - self.start if self.start is not None and self.end is not None else None

    def to_json(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "seconds": self.seconds, "reason": self.reason}


ELSEWHERE = Phase(reason="its times lie outside of the attempt; the clock of a rank is wrong or was set")


def within(timeline: Timeline, *moments: float | None) -> bool:
    """Whether moments can be of an attempt, as far as its clock and those of its ranks agree."""
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
    told = {name: _recorded(edges.get(name, [])) for name in dict.fromkeys((*ALWAYS, *sorted(edges)))}
    found = {name: phase if within(timeline, phase.start, phase.end) else ELSEWHERE for name, phase in told.items()}
    if found["prepare"].start is None and found["prepare"].end is None:
        found["prepare"] = _prepared(timeline)
    found["total"] = _whole(timeline)
    return found


def _recorded(edges: Sequence[tuple[int, Edge]]) -> Phase:
    """What the ranks recorded; one that began and never ended leaves the end open."""
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
        return Phase(start, end, f"rank {(unbegun or unended)[0]} never recorded its {'start' if unbegun else 'end'}")
    if end is not None and start is not None and end < start:
        return Phase(reason="its end was recorded before its start")
    return Phase(start, end)


def _prepared(timeline: Timeline) -> Phase:
    """What Muster did before the ranks ran."""
    if timeline.started is None or timeline.last_rank is None:
        return Phase(timeline.started, None, timeline.unstarted or "the attempt has no recorded start")
    return Phase(timeline.started, timeline.last_rank)


def _whole(timeline: Timeline) -> Phase:
    missing = [word for word, time in (("start", timeline.started), ("end", timeline.ended)) if time is None]
    return Phase(timeline.started, timeline.ended, f"the attempt has no recorded {missing[0]}" if missing else None)
