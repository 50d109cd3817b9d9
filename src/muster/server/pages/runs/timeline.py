"""The times of a run as bars: how long it waited, its attempts, and the phases of the last of them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from muster.bench.report.phrase import Phrase
from muster.server.pages.texts import say

WIDTH = 1000.0  # units of the drawing
LEAST = 4.0
SHORT = 1.0  # seconds between two attempts that are no waiting
PHASED = 3  # attempts whose phases are drawn, the last ones
Fetching = Callable[[int], tuple[float, float | None] | None]  # when an attempt fetched its inputs


@dataclass(frozen=True)
class Span:
    name: Phrase
    kind: str  # waiting, the state of an attempt, or a phase
    start: float
    end: float | None  # None: it goes on
    inner: bool = False  # a phase of the attempt above


@dataclass(frozen=True)
class Bar(Span):
    x: float = 0.0
    width: float = LEAST


def bars(run: dict[str, Any], fetching: Fetching = lambda _: None) -> list[Bar]:
    """The bars of a run, from its details."""
    created, end = float(run["created"]), float(run.get("ended") or time.time())
    scale = WIDTH / max(0.001, end - created)

    def placed(span: Span) -> Bar:
        x = min(WIDTH - LEAST, max(0.0, (span.start - created) * scale))
        width = max(LEAST, min(WIDTH - x, ((span.end or end) - span.start) * scale))
        return Bar(span.name, span.kind, span.start, span.end, span.inner, round(x, 1), round(width, 1))

    return [placed(span) for span in _spans(run, fetching)]


def _spans(run: dict[str, Any], fetching: Fetching) -> Iterator[Span]:
    attempts = [one for one in run.get("attempts") or [] if one.get("started")]
    waiting = say("job.timeline.waiting")
    since: float | None = float(run["created"])  # from when on nothing ran; None while an attempt goes on
    for index, one in enumerate(attempts):
        started = float(one["started"])
        if since is not None and (index == 0 or started - since >= SHORT):
            yield Span(waiting, "waiting", since, started)
        yield Span(say("job.timeline.attempt", number=one["attempt"]), str(one["state"]), started, one.get("ended"))
        if index >= len(attempts) - PHASED:
            yield from _phases(one, run.get("job") or {}, fetching(one["attempt"]))
        since = one.get("ended")
    if since is not None and (not attempts or not run.get("ended")):
        yield Span(waiting, "waiting", since, run.get("ended"))


def _phases(attempt: dict[str, Any], job: dict[str, Any], inputs: tuple[float, float | None] | None) -> Iterator[Span]:
    """What an attempt did: it prepared, fetched its inputs, its ranks ran, its outputs were saved."""
    started, ended = float(attempt["started"]), attempt.get("ended")
    ranks = [one for one in attempt.get("ranks") or [] if one.get("rank") is not None]
    first = min((one["started"] for one in ranks if one.get("started")), default=None)
    done = ranks and all(one.get("ended") for one in ranks)
    last = max(one["ended"] for one in ranks) if done else ended
    yield _phase("preparing", started, first or ended)
    if inputs is not None:
        yield _phase("inputs", inputs[0], inputs[1] or ended)
    if first is not None:
        yield _phase("ranks", first, last)
    if first is not None and last is not None and done and (job.get("outputs") or job.get("log_url")):
        yield _phase("outputs", last, ended)


def _phase(name: str, start: float, end: float | None) -> Span:
    return Span(say(f"job.timeline.{name}"), name, start, end if end is None else max(start, end), True)
