"""The values of ranks from AISBench's result files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.job import Job
from muster.metrics import numbers, result_files
from muster.metrics.result_files import Claim, ResultFile
from muster.metrics.sources import ByMetric, aggregated
from muster.metrics.values import RankReport


@dataclass(frozen=True)
class FileValues:
    """The values in the result files of an attempt."""

    fresh: dict[int, ByMetric]  # by rank
    stale: dict[int, ByMetric]  # reasons instead of values that lay there before the run
    strays: list[tuple[str, str]]  # metric and name of files of ranks that did not run


def read(job: Job, files: Sequence[ResultFile]) -> FileValues:
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
