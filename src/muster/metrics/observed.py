"""All numbers and phases that the ranks of an attempt reported, in whatever way: one reading per rank and metric."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from muster.job import Job
from muster.metrics import log_numbers, numbers, result_files, sources
from muster.metrics.log_numbers import Unread
from muster.metrics.rank_map import Seat, seats
from muster.metrics.recorded import Edge, Point, read_record
from muster.metrics.sources import Found, Sight, Values
from muster.records.files import read_events
from muster.records.json_safe import number
from muster.records.layout import AttemptDir, NodeDir, RunDir
from muster.records.worlds import separate

SKEW = 60.0  # seconds by which the clocks of nodes may differ


@dataclass(frozen=True)
class Reading:
    """What one rank reported of one metric: a number, or what is wrong, as the end of a sentence about the rank."""

    value: float | None = None
    reason: str | None = None
    source: str | None = None
    values: int = 0
    spread: dict[str, float] | None = None
    time: float | None = None


@dataclass
class Observed:
    """Everything that was reported."""

    job: Job
    readings: dict[str, dict[int, Reading]] = field(default_factory=dict)  # by metric and rank
    sights: dict[str, list[Sight]] = field(default_factory=dict)
    units: dict[str, list[str]] = field(default_factory=dict)  # those that ranks named
    ranks: dict[str, int] = field(default_factory=dict)  # by metric: how many trained together, as far as ranks know
    edges: dict[int, list[Edge]] = field(default_factory=dict)  # by rank
    strays: dict[str, list[str]] = field(default_factory=dict)  # by metric: what came from no rank that ran
    problems: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)  # where numbers that are missing may be
    separate: str = ""  # that the ranks did not train together, if so
    unread: Unread = Unread()

    def reading(self, name: str, seat: Seat) -> Reading:
        found = self.readings.get(name, {}).get(seat.rank)
        return found or Reading(reason=f"reported no {name}")

    def add(self, seat: Seat, name: str, values: Values) -> None:
        self.readings.setdefault(name, {})[seat.rank] = _reading(self.job, name, values)
        self.units[name] = list(dict.fromkeys([*self.units.get(name, []), *values.units]))
        self.ranks[name] = max(values.ranks, self.ranks.get(name, 0))
        self.sights.setdefault(name, []).extend(values.sights)

    def leave_unread(self, unread: Unread, ranks: Iterable[int]) -> None:
        """Says of the ranks whose logs were not read, or not for all metrics, why they have no number from there."""
        self.unread = unread
        for name in [name for name, metric in self.job.metrics.items() if metric.pattern]:
            reason = unread.why(self.job, name)
            known = self.readings.get(name, {})
            silent = [rank for rank in ranks if rank not in known or known[rank].source == "pattern"] if reason else []
            for rank in silent:
                self.readings.setdefault(name, {})[rank] = Reading(reason=reason, source="pattern")
            if silent and name in self.sights:
                self.sights[name] = [sight for sight in self.sights[name] if sight.rank not in silent]


def observe(attempt: AttemptDir, job: Job, unread: Unread | None = None) -> Observed:
    """Reads everything that was reported in an attempt, rank by rank; but not `unread`, or what the final record says is so."""
    files = result_files.find(attempt)
    filed = sources.filed(job, files)
    records = sources.records(attempt, job)
    logs = log_numbers.logs(attempt, job) if log_numbers.wanted(job) else {}
    noted = unread or Unread.noted(attempt)
    patterns = log_numbers.patterns(job, noted)
    began = _began(attempt)
    wrong = [*result_files.wrong_sizes(job, files), *result_files.refused_folders(attempt)]
    found = Observed(job, problems=wrong, unseen=list(result_files.unseen(attempt)))
    found.separate = separate(attempt, job)
    found.problems += filter(None, [found.separate])
    for metric, name in [*filed.strays, *_stray_records(records, found)]:
        found.strays.setdefault(metric, []).append(name)
    with patterns.timed():
        for seat in seats(job):
            points, edges, trouble = _recorded(records.get(seat.rank, []))
            found.problems += trouble
            ways = [sources.told(job, seat.rank, "record", points), filed.fresh.get(seat.rank, {})]
            if seat.rank in logs and not (noted and noted.logs):
                log = log_numbers.read(logs[seat.rank], patterns)
                fresh = [point for point in log.points if point.t >= began]
                ways += [sources.told(job, seat.rank, "mllog", fresh), sources.matched(job, seat.rank, log.matches)]
                ways += [sources.outdated("mllog", [point for point in log.points if point.t < began])]
                known = {edge.name for edge in edges}
                edges += [edge for edge in log.edges if edge.name not in known]
            found.edges[seat.rank] = edges
            for name, values in _first([*ways, filed.stale.get(seat.rank, {}), sources.unread("; ".join(trouble))]).items():
                found.add(seat, name, values)
    given_up = (*(noted.metrics if noted else ()), *patterns.given_up)
    found.leave_unread(Unread(noted.logs if noted else "", given_up), logs)
    return found


def _began(attempt: AttemptDir) -> float:
    """Before when nothing is of this attempt, clocks that differ a little granted; what is not on record excludes nothing."""
    run = RunDir(os.path.dirname(os.path.dirname(attempt.path)))
    events = [event for event in read_events(run.events) if isinstance(event, dict) and event.get("event") == "attempt"]
    times = [number(event.get("time")) for event in events if event.get("attempt") == attempt.number]
    return next((time - SKEW for time in times if time is not None), -math.inf)


def _recorded(paths: Sequence[str]) -> tuple[list[Point], list[Edge], list[str]]:
    """What stands in files of `muster.record`, and why some of them cannot be read."""
    trouble: list[str] = []
    points: list[Point] = []
    edges: list[Edge] = []
    for path in paths:
        try:
            more = read_record(path)
        except OSError as error:  # the directory is the ranks' own: anything may have this name
            name, node = os.path.basename(path), NodeDir(os.path.dirname(os.path.dirname(path)))
            trouble.append(f"{name} cannot be read: {result_files.refusals(node).get(name, error.strerror)}")
        else:
            points += more[0]
            edges += more[1]
    return points, edges, trouble


def _stray_records(records: dict[int, list[str]], found: Observed) -> list[tuple[str, str]]:
    """The metrics in records of ranks that did not run."""
    strays = []
    for path in records.get(-1, []):
        points, _, trouble = _recorded([path])
        found.problems += trouble
        strays += [(name, os.path.basename(path)) for name in dict.fromkeys(point.name for point in points)]
    return strays


def _first(ways: Sequence[Found]) -> Found:
    """Of each metric what the first of the ways has that knows it."""
    chosen: Found = {}
    for way in reversed(ways):
        chosen.update(way)
    return chosen


def _reading(job: Job, name: str, values: Values) -> Reading:
    """The one number that several values of a rank make."""
    if values.wrong:
        return Reading(reason=values.wrong, source=values.source)
    take = job.metric(name).take
    warmup = job.bench.warmup if job.bench and values.source == "pattern" and take != "last" else 0
    counted = values.values[warmup:]
    if not counted:
        wrong = f"reported no {name} after the warm-up of {warmup} values"
        return Reading(reason=wrong, source=values.source)
    taken = _taken(take, counted)
    trouble = _trouble(job, name, taken)
    return Reading(None if trouble else taken, trouble, values.source, len(counted), values.spread, values.time)


def _taken(take: str, values: Sequence[float]) -> float:
    """The value that counts; one that is not finite spoils all that it would be counted with."""
    counted = values[-1:] if take == "last" else values
    spoilt = next((value for value in counted if not math.isfinite(value)), None)
    return numbers.RULES[take](counted) if spoilt is None else spoilt


def _trouble(job: Job, name: str, value: float) -> str | None:
    if not math.isfinite(value):
        return f"reported a value of {name} that is not finite: {value!r}"
    rate = name == "throughput" or (job.bench and name == job.bench.metric and job.metric(name).better == "higher")
    if rate and value <= 0:
        return f"reported a value of {name} that is not positive: {value!r}"
    return None
