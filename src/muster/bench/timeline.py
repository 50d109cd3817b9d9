"""When an attempt of a run and its ranks started and ended, as supervisor and agents wrote it down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.bench.model.codec import END_OF_TIME
from muster.job import Job
from muster.records.files import read_events
from muster.records.layout import AttemptDir, RunDir
from muster.records.ranks import ranks
from muster.records.untrusted import number


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


def read(run: RunDir, attempt: AttemptDir, job: Job) -> Timeline:
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
