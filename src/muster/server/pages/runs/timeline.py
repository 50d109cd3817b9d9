"""The times of a run as bars: how long it waited, and its attempts."""

import time
from dataclasses import dataclass
from typing import Any

from muster.bench.report.phrase import Phrase
from muster.server.pages.texts import say

WIDTH = 1000.0  # units of the drawing
LEAST = 4.0


@dataclass(frozen=True)
class Bar:
    name: Phrase
    kind: str  # waiting, starting, or the state of an attempt
    start: float
    end: float | None  # None: it goes on
    x: float
    width: float


def bars(run: dict[str, Any]) -> list[Bar]:
    """The bars of a run, from its details."""
    created, attempts = float(run["created"]), run.get("attempts") or []
    first = next((float(one["started"]) for one in attempts if one.get("started")), None)
    end = run.get("ended") or time.time()
    spans: list[tuple[Phrase, str, float, float | None]] = []
    left = first if first is not None else run.get("ended")
    spans.append((say("job.timeline.waiting"), "waiting", created, left))
    for one in attempts:
        if one.get("started"):
            name = say("job.timeline.attempt", number=one["attempt"])
            spans.append((name, str(one["state"]), float(one["started"]), one.get("ended")))
    scale = WIDTH / max(0.001, float(end) - created)

    def placed(start: float, stop: float | None) -> tuple[float, float]:
        x = min(WIDTH - LEAST, max(0.0, (start - created) * scale))
        return round(x, 1), round(max(LEAST, min(WIDTH - x, ((stop or float(end)) - start) * scale)), 1)

    return [Bar(name, kind, start, stop, *placed(start, stop)) for name, kind, start, stop in spans]
