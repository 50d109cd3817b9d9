"""All metrics and phases that the ranks of an attempt reported, from any source: one value per rank and metric."""

from __future__ import annotations

import math
import os
from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from muster.dataclass import replace
from muster.job import Job
from muster.metrics import log_numbers, result_files, sources
from muster.metrics.log_numbers import LogContent, Unread
from muster.metrics.rank_map import Rank, all_ranks
from muster.metrics.recorded import Edge, read_record
from muster.metrics.values import DataPoint, RankReport
from muster.records import clocks
from muster.records.files import read_events
from muster.records.layout import AttemptDir, NodeDir
from muster.records.untrusted import number
from muster.records.warnings import separate

SKEW = 60.0  # seconds by which the clocks of nodes may differ
Timed = TypeVar("Timed", DataPoint, Edge)


@dataclass
class Observed:
    """Everything that was reported."""

    job: Job
    values: dict[str, dict[int, RankReport]] = field(default_factory=dict)  # by metric and rank
    edges: dict[int, list[Edge]] = field(default_factory=dict)  # by rank
    strays: dict[str, list[str]] = field(default_factory=dict)  # by metric: files of ranks that did not run
    problems: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)  # where missing numbers may be
    separate: str = ""  # a message if the ranks did not train together
    unread: Unread = Unread()

    def value(self, name: str, rank: Rank) -> RankReport:
        return self.values.get(name, {}).get(rank.index) or RankReport(reason=f"reported no {name}")

    def units(self, name: str) -> list[str]:
        """The units in which a metric was reported."""
        return list(dict.fromkeys(unit for value in self.values.get(name, {}).values() for unit in value.units))

    def world_size(self, name: str) -> int:
        """How many ranks trained together, as far as those know that reported a metric."""
        return max((value.world_size for value in self.values.get(name, {}).values()), default=0)

    def series(self, name: str) -> list[tuple[int, DataPoint]]:
        """The data points of a metric, each with its rank."""
        return [(rank, point) for rank, value in self.values.get(name, {}).items() for point in value.points]

    def leave_unread(self, unread: Unread, ranks: Iterable[int]) -> None:
        """Replaces values that would have come from skipped logs or patterns by the reason."""
        self.unread = unread
        for name in [name for name, metric in self.job.metrics.items() if metric.pattern]:
            reason = unread.reason(self.job, name)
            known = self.values.get(name, {})
            for rank in ranks if reason else ():
                if rank not in known or known[rank].source == "pattern":
                    self.values.setdefault(name, {})[rank] = RankReport(reason=reason, source="pattern")


def observe(attempt: AttemptDir, job: Job, unread: Unread | None = None) -> Observed:
    """Reads everything that was reported in an attempt, except for `unread`, or what the final record lists as such."""
    unread = unread or Unread.from_final_record(attempt)
    listed = result_files.find(attempt)
    records, files = sources.record_files(attempt, job), sources.from_files(job, listed)
    logs = log_numbers.logs(attempt, job) if log_numbers.wanted(job) else {}
    read = {} if unread and unread.logs else logs
    patterns, began, ahead = log_numbers.patterns(job, unread), _began(attempt), clocks.ahead(attempt)
    problems = [*result_files.wrong_sizes(job, listed), *result_files.refused_folders(attempt)]
    found = Observed(job, problems=problems, unseen=list(result_files.unseen(attempt)), separate=separate(attempt, job))
    found.problems += filter(None, [found.separate])
    for metric, name in [*files.strays, *_stray_records(records, found)]:
        found.strays.setdefault(metric, []).append(name)
    with patterns.timed():
        for rank in all_ranks(job):
            log = log_numbers.read(read[rank.index], patterns) if rank.index in read else None
            _observe_rank(found, rank, records.get(rank.index, []), files, log, began, ahead.get(rank.node, 0.0))
    given_up = (*(unread.metrics if unread else ()), *patterns.given_up)
    found.leave_unread(Unread(unread.logs if unread else "", given_up), logs)
    return found


def _observe_rank(
    found: Observed,
    rank: Rank,
    records: Sequence[str],
    files: sources.FileValues,
    log: LogContent | None,
    began: float,
    ahead: float,
) -> None:
    """Adds what a rank reported, by the clock of the supervisor, which that of its node is ahead of.

    Data points in its log that are older than `began` are not of this attempt.
    """
    points, edges, problems = _read_records(records)
    points, edges = _set_back(points, ahead), _set_back(edges, ahead)
    found.problems += problems
    by_source = [sources.from_points(found.job, "record", points), files.fresh.get(rank.index, {})]
    if log is not None:
        logged, phases, matches = _set_back(log[0], ahead), _set_back(log[1], ahead), log[2]
        fresh = [point for point in logged if point.t is not None and point.t >= began]
        older = [point for point in logged if point.t is not None and point.t < began]
        by_source.append(sources.from_points(found.job, "mllog", fresh))
        by_source.append({name: sources.from_matches(found.job, name, matched) for name, matched in matches.items()})
        by_source.append(sources.outdated("mllog", older))
        known = {edge.name for edge in edges}
        edges += [edge for edge in phases if edge.name not in known]
    found.edges[rank.index] = edges
    by_source += [files.stale.get(rank.index, {}), sources.unreadable("; ".join(problems))]
    for name, value in ChainMap(*by_source).items():  # the first source that has a metric counts
        found.values.setdefault(name, {})[rank.index] = value


def _set_back(reported: list[Timed], ahead: float) -> list[Timed]:
    """Gives what a rank reported the times of its supervisor."""
    return [replace(each, t=each.t - ahead) if each.t is not None else each for each in reported] if ahead else reported


def _began(attempt: AttemptDir) -> float:
    """The start of the attempt, less the skew of clocks; -inf where it is not on record."""
    begun = [event for event in read_events(attempt.run.events) if event["event"] == "attempt"]
    times = [number(event.get("time")) for event in begun if event.get("attempt") == attempt.number]
    return next((time - SKEW for time in times if time is not None), -math.inf)


def _read_records(paths: Sequence[str]) -> tuple[list[DataPoint], list[Edge], list[str]]:
    """Data points and phases in files of `muster.record`, and why some of them cannot be read."""
    problems: list[str] = []
    points: list[DataPoint] = []
    edges: list[Edge] = []
    for path in paths:
        try:
            more = read_record(path)
        except OSError as error:  # ranks can put anything at this path
            name, node = os.path.basename(path), NodeDir(os.path.dirname(os.path.dirname(path)))
            problems.append(f"{name} cannot be read: {result_files.refusals(node).get(name, error.strerror)}")
        else:
            points += more[0]
            edges += more[1]
    return points, edges, problems


def _stray_records(records: dict[int, list[str]], found: Observed) -> list[tuple[str, str]]:
    """The metrics in records of ranks that did not run."""
    strays = []
    for path in records.get(-1, []):
        points, _, problems = _read_records([path])
        found.problems += problems
        strays += [(name, os.path.basename(path)) for name in dict.fromkeys(point.name for point in points)]
    return strays
