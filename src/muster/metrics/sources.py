"""The values of ranks from each source: `muster.record`, `:::MLLOG` lines and patterns in their logs, AISBench's files."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from muster.dataclass import dataclass, replace
from muster.job import Job
from muster.linux.proc import listed
from muster.metrics import numbers, result_files
from muster.metrics.log_numbers import Matches
from muster.metrics.rank_map import rank_in_run
from muster.metrics.recorded import read_record
from muster.metrics.result_files import Claim, ResultFile
from muster.metrics.values import DataPoint, RankReport
from muster.records.layout import AttemptDir
from muster.records.untrusted import is_regular, number

MOST_POINTS = 200_000  # data points of a metric that are kept over all ranks, unless a target is looked for in them
FEWEST_POINTS = 50  # that are kept of one rank

ByMetric = dict[str, RankReport]


def record_files(attempt: AttemptDir, job: Job) -> dict[int, list[str]]:
    """The files of `muster.record` by rank; those of ranks that did not run are under -1."""
    found: dict[int, list[str]] = {}
    for node in attempt.node_indexes():
        folder = attempt.node(node).results
        refused = result_files.refusals(attempt.node(node))
        for name in {**dict.fromkeys(listed(folder)), **refused}:
            match = re.fullmatch(result_files.RECORD, name)
            if match and (name in refused or is_regular(os.path.join(folder, name), attempt.node(node).path)):
                rank = rank_in_run(job, node, int(match.group(1)))
                if not job.alone and rank // job.ranks_per_node != node:  # a program that numbers ranks of its own
                    rank = -1
                found.setdefault(rank, []).append(os.path.join(folder, name))
    return found


def curves(attempt: AttemptDir, job: Job) -> dict[str, list[tuple[float, float]]]:
    """What rank 0 recorded in the course of an attempt, by metric: steps, or seconds where there are none, and values."""
    found: dict[str, list[tuple[float, float]]] = {}
    points = [point for path in record_files(attempt, job).get(0, []) for point in read_record(path)[0] if not point.final]
    for point in points:
        place = point.step if point.step is not None else (point.t or 0.0) - (points[0].t or 0.0)
        if math.isfinite(point.value) and math.isfinite(place):
            found.setdefault(point.name, []).append((float(place), point.value))
    return found


def from_points(job: Job, source: str, points: Sequence[DataPoint]) -> ByMetric:
    """The values of a rank from its data points; where it reported a final one, that alone counts."""
    by_name: dict[str, list[DataPoint]] = {}
    for point in points:
        by_name.setdefault(point.name, []).append(point)
    return {name: _from_points(job, source, name, of) for name, of in by_name.items()}


def _from_points(job: Job, source: str, name: str, points: Sequence[DataPoint]) -> RankReport:
    finals = [point for point in points if point.final]
    course = [point for point in points if not point.final and math.isfinite(point.value)]
    kept = [course[index] for index in numbers.thinned(len(course), _most_points(job, name))]
    timers = _sum_of_timers(finals) if len(finals) > 1 and job.metric(name).take == "mean" else None
    values = [timers["samples"] / timers["seconds"]] if timers else [point.value for point in finals or points]
    return replace(
        aggregated(job, name, source, values),
        step_stats=_finite_stats(finals[0].step_stats) if len(finals) == 1 else timers,
        time=_finite_time(points[-1]).t,
        points=[_finite_time(point) for point in kept],
        units=tuple(dict.fromkeys(point.unit for point in points if point.unit)),
        world_size=max(point.world_size or 0 for point in points),
    )


def from_matches(job: Job, name: str, found: Matches) -> RankReport:
    """The value of a rank from what the pattern of a metric matched in its log."""
    if found.invalid is not None:
        return RankReport(reason=f"reported a {name} that is not a number: {found.invalid[:40]!r}", source="pattern")
    kept = [(step, found.values[step]) for step in numbers.thinned(len(found.values), _most_points(job, name))]
    points = [DataPoint(None, name, value, step=step) for step, value in kept if math.isfinite(value)]
    warmup = job.bench.warmup if job.bench and job.metric(name).take != "last" else 0
    counted = found.values[warmup:]
    if not counted:
        reason = f"reported no {name} after the warm-up of {warmup} values"
        return RankReport(reason=reason, source="pattern", points=points)
    return replace(aggregated(job, name, "pattern", counted), points=points)


@dataclass(frozen=True)
class FileValues:
    """The values in the result files of an attempt."""

    fresh: dict[int, ByMetric]  # by rank
    stale: dict[int, ByMetric]  # reasons instead of values that lay there before the run
    strays: list[tuple[str, str]]  # metric and name of files of ranks that did not run


def from_files(job: Job, files: Sequence[ResultFile]) -> FileValues:
    """The values of all ranks from AISBench's result files."""
    claimed: dict[tuple[int, str], list[tuple[Claim, ResultFile]]] = {}
    found = FileValues({}, {}, [])
    for file in files:
        claim = result_files.claim(job, file)
        if claim is None:
            continue
        if claim.rank >= 0 and file.stale:
            reason = f"reported no {claim.metric} of its own: {file} is older than the run"
            found.stale.setdefault(claim.rank, {})[claim.metric] = RankReport(reason=reason, source=file.name)
        elif claim.rank >= 0:
            claimed.setdefault((claim.rank, claim.metric), []).append((claim, file))
        elif not file.stale:
            found.strays.append((claim.metric, str(file)))
    for (rank, metric), claims in claimed.items():
        first = min(claim.order for claim, _ in claims)
        counted = [file for claim, file in claims if claim.order == first]
        found.fresh.setdefault(rank, {})[metric] = _agreed(job, metric, counted)
    return found


def _agreed(job: Job, metric: str, files: Sequence[ResultFile]) -> RankReport:
    """The number in several files of one rank, which must all hold the same."""
    texts: list[str] = []
    for file in files:
        try:
            texts.append(file.text())
        except FileNotFoundError:
            return RankReport(reason=f"reported a {metric} that was not kept: {file}", source=file.name)
        except OSError as error:
            reason = f"reported a {metric} in {file}, which cannot be read: {error.strerror}"
            return RankReport(reason=reason, source=file.name)
    first, text = files[0], texts[0]
    for other, different in zip(files, texts):
        if different != text:
            both = f"{first} of node {first.node} and {other} of node {other.node}"
            return RankReport(reason=f"reported different values of {metric}: {both}", source=first.name)
    value = numbers.read(text)
    if value is None:
        reason = f"reported a {metric} that is not a number: {text[:40]!r} in {first}"
        return RankReport(reason=reason, source=first.name)
    return replace(aggregated(job, metric, first.name, [value]), time=first.modified)


def unreadable(reason: str) -> ByMetric:
    """Stands for the metrics in a record that cannot be read, whose names are not known."""
    return {"throughput": RankReport(reason=f"reported nothing that can be read: {reason}", source="record")} if reason else {}


def outdated(source: str, points: Sequence[DataPoint]) -> ByMetric:
    """Reasons instead of values that are older than the run, such as those of an earlier log that a rank printed."""
    reason = "reported no %s of its own: what it told is older than the run, or its clock is wrong"
    return {point.name: RankReport(reason=reason % point.name, source=source) for point in points}


def aggregated(job: Job, name: str, source: str, values: Sequence[float]) -> RankReport:
    """The number that the values of a rank make, by the rule `take` of their metric."""
    value = _take(job.metric(name).take, values)
    reason = _invalid(job, name, value)
    return RankReport(None if reason else value, reason, source, len(values))


def _take(rule: str, values: Sequence[float]) -> float:
    """Applies a rule; a value that is not finite is returned as it is."""
    counted = values[-1:] if rule == "last" else values
    infinite = next((value for value in counted if not math.isfinite(value)), None)
    return numbers.RULES[rule](counted) if infinite is None else infinite


def _invalid(job: Job, name: str, value: float) -> str | None:
    if not math.isfinite(value):
        return f"reported a value of {name} that is not finite: {value!r}"
    rate = name == "throughput" or (job.bench and name == job.bench.metric and job.metric(name).better == "higher")
    if rate and value <= 0:
        return f"reported a value of {name} that is not positive: {value!r}"
    return None


def _sum_of_timers(finals: Sequence[DataPoint]) -> dict[str, float] | None:
    """The samples and seconds of several timers of a rank; None if a final value does not come from a timer."""
    sums = {}
    for key in ("samples", "seconds"):
        counts = [number((point.step_stats or {}).get(key)) for point in finals]
        known = [value for value in counts if value is not None and 0 < value < math.inf]
        if len(known) < len(finals):
            return None
        sums[key] = numbers.total(known)
    return sums


def _most_points(job: Job, name: str) -> int:
    """How many data points of a metric are kept of each rank."""
    aimed = job.bench is not None and name in job.bench.targets
    return sys.maxsize if aimed else max(FEWEST_POINTS, MOST_POINTS // job.ranks)


def _finite_time(point: DataPoint) -> DataPoint:
    return point if point.t is None or math.isfinite(point.t) else replace(point, t=None)


def _finite_stats(stats: dict[str, Any] | None) -> dict[str, float] | None:
    """The finite numbers among the statistics of steps."""
    if stats is None:
        return None
    known = {key: number(value) for key, value in stats.items()}
    return {key: stats[key] for key, value in known.items() if value is not None and math.isfinite(value)}
