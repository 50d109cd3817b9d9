"""The ways in which a rank reports numbers: `muster.record`, files of AISBench, `:::MLLOG` lines, patterns in its log."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.job import Job
from muster.metrics import numbers, result_files
from muster.metrics.log_numbers import Matches
from muster.metrics.rank_map import rank_in_run
from muster.metrics.recorded import Point
from muster.metrics.result_files import Claim, ResultFile
from muster.records.json_safe import number
from muster.records.layout import AttemptDir
from muster.records.untrusted import is_regular

MOST_SIGHTS = 200_000  # of a metric that are kept over all ranks, unless a target is looked for in them
FEWEST_SIGHTS = 50  # of a metric that are kept of one rank


@dataclass(frozen=True)
class Sight:
    """One value on the way; a log does not tell when it was written."""

    t: float | None
    rank: int
    value: float
    step: int | None = None


@dataclass(frozen=True)
class Values:
    """What one source has of a metric of a rank, or what is wrong with it."""

    source: str
    values: Sequence[float] = ()  # those that count
    sights: Sequence[Sight] = ()  # all that were told, or enough of them for a picture
    wrong: str = ""
    spread: dict[str, float] | None = None
    time: float | None = None
    units: tuple[str, ...] = ()
    ranks: int = 0  # the most that trained together, as far as the rank knows


Found = dict[str, Values]  # by metric


def records(attempt: AttemptDir, job: Job) -> dict[int, list[str]]:
    """The files of `muster.record`, by rank; those of no rank that ran are under -1."""
    found: dict[int, list[str]] = {}
    for node in attempt.node_indexes():
        folder = attempt.node(node).results
        refused = result_files.refusals(attempt.node(node))
        for name in {**dict.fromkeys(result_files.listed(folder)), **refused}:
            match = result_files.RECORD.match(name)
            if match and (name in refused or is_regular(os.path.join(folder, name), attempt.node(node).path)):
                rank = rank_in_run(job, node, int(match.group(1)))
                if not job.alone and rank // job.ranks_per_node != node:  # a program that numbers ranks of its own
                    rank = -1
                found.setdefault(rank, []).append(os.path.join(folder, name))
    return found


def told(job: Job, rank: int, source: str, points: Sequence[Point]) -> Found:
    """What a rank told point by point; where it told a final value, that alone counts."""
    by_name: dict[str, list[Point]] = {}
    for point in points:
        by_name.setdefault(point.name, []).append(point)
    return {name: _told(job, rank, source, name, of) for name, of in by_name.items()}


def _told(job: Job, rank: int, source: str, name: str, points: Sequence[Point]) -> Values:
    finals = [point for point in points if point.final]
    seen = [point for point in points if not point.final and math.isfinite(point.value)]
    kept = [seen[index] for index in numbers.thinned(len(seen), _most(job, name))]
    together = _of_timers(finals) if len(finals) > 1 and job.metric(name).take == "mean" else None
    return Values(
        source,
        [together["samples"] / together["seconds"]] if together else [point.value for point in finals or points],
        [Sight(numbers.finite(point.t), rank, point.value, point.step) for point in kept],
        spread=_finite(finals[0].spread) if len(finals) == 1 else together,
        time=numbers.finite(points[-1].t),
        units=tuple(dict.fromkeys(point.unit for point in points if point.unit)),
        ranks=max(point.ranks or 0 for point in points),
    )


def unread(reason: str) -> Found:
    """What a rank told in a file that cannot be read; nobody knows which metrics."""
    return {"throughput": Values("record", wrong=f"reported nothing that can be read: {reason}")} if reason else {}


def outdated(source: str, points: Sequence[Point]) -> Found:
    """What a rank told of a time before the run, such as a log of an earlier one that it printed; never a number."""
    wrong = "reported no %s of its own: what it told is older than the run, or its clock is wrong"
    return {point.name: Values(source, wrong=wrong % point.name) for point in points}


def _of_timers(finals: Sequence[Point]) -> dict[str, float] | None:
    """The samples of several timers of a rank, and the seconds that they took; None for what no timer told."""
    sums = {}
    for key in ("samples", "seconds"):
        told = [number((point.spread or {}).get(key)) for point in finals]
        known = [value for value in told if value is not None and 0 < value < math.inf]
        if len(known) < len(finals):
            return None
        sums[key] = numbers.total(known)
    return sums


def matched(job: Job, rank: int, matches: dict[str, Matches]) -> Found:
    """What the patterns of the job found in the log of a rank."""
    return {name: _matched(job, rank, name, found) for name, found in matches.items()}


def _matched(job: Job, rank: int, name: str, found: Matches) -> Values:
    if found.wrong is not None:
        return Values("pattern", wrong=f"reported a {name} that is not a number: {found.wrong[:40]!r}")
    kept = [(step, found.values[step]) for step in numbers.thinned(len(found.values), _most(job, name))]
    return Values("pattern", found.values, [Sight(None, rank, value, step) for step, value in kept if math.isfinite(value)])


def _most(job: Job, name: str) -> int:
    """How many values of a metric are kept one by one of each rank."""
    aimed = job.bench is not None and name in job.bench.targets
    return sys.maxsize if aimed else max(FEWEST_SIGHTS, MOST_SIGHTS // job.ranks)


def _finite(spread: dict[str, Any] | None) -> dict[str, float] | None:
    """The numbers of a spread; whatever else stands there is left out."""
    if spread is None:
        return None
    told = {key: number(value) for key, value in spread.items()}
    return {key: spread[key] for key, value in told.items() if value is not None and math.isfinite(value)}


@dataclass(frozen=True)
class Filed:
    """What the result files of an attempt say."""

    fresh: dict[int, Found]  # by rank
    stale: dict[int, Found]  # what lay there before; it is a reason, never a number
    strays: list[tuple[str, str]]  # metric and name of those of no rank that ran


def filed(job: Job, files: Sequence[ResultFile]) -> Filed:
    claimed: dict[tuple[int, str], list[tuple[Claim, ResultFile]]] = {}
    result = Filed({}, {}, [])
    for file in files:
        claim = result_files.claim(job, file)
        if claim is None:
            continue
        if claim.rank >= 0 and file.stale:
            wrong = f"reported no {claim.metric} of its own: {file} is older than the run"
            result.stale.setdefault(claim.rank, {})[claim.metric] = Values(file.name, wrong=wrong)
        elif claim.rank >= 0:
            claimed.setdefault((claim.rank, claim.metric), []).append((claim, file))
        elif not file.stale:
            result.strays.append((claim.metric, str(file)))
    for (rank, metric), claims in claimed.items():
        result.fresh.setdefault(rank, {})[metric] = _agreed(metric, claims)
    return result


def _agreed(metric: str, claims: Sequence[tuple[Claim, ResultFile]]) -> Values:
    """The number of the files of the first kind, which have to say the same."""
    first = min(claim.order for claim, _ in claims)
    texts: list[tuple[ResultFile, str]] = []
    for file in (file for claim, file in claims if claim.order == first):
        try:
            texts.append((file, file.text()))
        except FileNotFoundError:
            return Values(file.name, wrong=f"reported a {metric} that was not kept: {file}")
        except OSError as error:
            return Values(file.name, wrong=f"reported a {metric} in {file}, which cannot be read: {error.strerror}")
    file, text = texts[0]
    for other, different in texts:
        if different != text:
            wrong = "reported different values of %s: %s of node %d and %s of node %d"
            return Values(file.name, wrong=wrong % (metric, file, file.node, other, other.node))
    value = numbers.read(text)
    if value is None:
        return Values(file.name, wrong=f"reported a {metric} that is not a number: {text[:40]!r} in {file}")
    return Values(file.name, [value], time=file.modified)
