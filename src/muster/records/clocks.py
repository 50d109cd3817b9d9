"""The clocks of nodes, where their machines may disagree with that of the supervisor, by which everything is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.records.files import read_events
from muster.records.layout import AttemptDir
from muster.records.untrusted import number, whole

EVENT = "clock"  # of a supervisor that measured a clock
MOST = 100 * 365 * 86400.0  # seconds: a clock that was never set says 1970


def ahead(attempt: AttemptDir) -> dict[int, float]:
    """The seconds by which clocks are ahead of the supervisor's, by node, where that was measured."""
    return ahead_in(read_events(attempt.run.events), attempt.number)


def ahead_in(events: Iterable[dict[str, Any]], attempt: int) -> dict[int, float]:
    """The same from the events of a run."""
    found: dict[int, float] = {}
    for event in events:
        node, seconds = whole(event.get("node")), number(event.get("ahead"))
        if event.get("event") == EVENT and event.get("attempt") == attempt and node is not None and seconds is not None:
            found[node] = max(-MOST, min(MOST, seconds))
    return found
