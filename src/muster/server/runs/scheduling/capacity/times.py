"""When runs end: at the latest by their time limits, and probably by what earlier runs took."""

from __future__ import annotations

from dataclasses import dataclass

from muster.server.runs.scheduling.model import Running, Waiting

# Runs without a limit end after all that have one, in the order in which they started: then a place that is kept for
# somebody stays the same from pass to pass, and what it waits for gets less.
ENDLESS = 1e12  # from here on nobody knows when
NEVER = 4e12  # of devices that others than runs hold


def end_of(started: float, limit: float | None) -> float:
    """When a run is over at the latest."""
    return 2 * ENDLESS + started if limit is None else started + limit


@dataclass(frozen=True, slots=True)
class Likely:
    """A probable moment, and what it is taken from."""

    at: float
    limits: bool = False
    past: bool = False


@dataclass(frozen=True, slots=True)
class Ends:
    now: float

    def by_limit(self, run: Running) -> float:
        """When a run is over at the latest. One that was told to go, or should be over, is about to be."""
        if run.leaving:
            return self.now
        return max(self.now, end_of(run.started, run.limit))

    def likely(self, run: Running) -> Likely:
        """When a run is probably over: as earlier ones, unless it already took longer, else by its limit."""
        if run.leaving:
            return Likely(self.now)
        latest = self.by_limit(run)
        if run.expected is not None and self.now < run.started + run.expected < latest:
            return Likely(run.started + run.expected, past=True)
        return Likely(latest, limits=run.limit is not None)


def likely_duration(job: Waiting) -> Likely:
    """How long a waiting run will probably take."""
    if job.expected is not None and (job.limit is None or job.expected < job.limit):
        return Likely(job.expected, past=True)
    return Likely(2 * ENDLESS) if job.limit is None else Likely(job.limit, limits=True)


def likely_end(job: Waiting, now: float) -> Likely:
    """When a run that starts now is probably over."""
    lasts = likely_duration(job)
    return Likely(now + lasts.at, lasts.limits, lasts.past)
