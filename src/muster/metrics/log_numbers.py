"""Numbers in the logs of ranks: matches of the patterns of the job, and `:::MLLOG` lines. Logs may be larger than memory."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from muster.job import Job
from muster.metrics import mllog, numbers
from muster.metrics.patterns import LATER, LIMIT, Patterns
from muster.metrics.recorded import Edge
from muster.metrics.values import DataPoint
from muster.records.files import read_json
from muster.records.layout import AttemptDir
from muster.records.untrusted import open_regular

LONGEST = 1 << 16  # bytes of a line; a longer one is read in pieces
SHOWN = 80  # characters of a pattern in a sentence
HINT = "write it without a repeat inside of a repeat, such as (a+)+"
_LOG = re.compile(r"rank-(\d+)\.log\Z")


@dataclass
class Matches:
    """The numbers that the pattern of a metric matched in a log."""

    values: array[float] = field(default_factory=lambda: array("d"))
    invalid: str | None = None  # the first match that is not a number

    def add(self, text: str) -> None:
        value = numbers.read(text)
        if value is not None:
            self.values.append(value)
        elif self.invalid is None:
            self.invalid = text


LogContent = tuple[list[DataPoint], list[Edge], dict[str, Matches]]
"""The data points and phases of the events in a log, and the matches of the patterns by metric."""


@dataclass(frozen=True)
class Unread:
    """Logs and patterns that were skipped because they delayed the end of the run; the final record keeps this."""

    logs: str = ""  # why all logs were skipped, if so
    metrics: tuple[str, ...] = ()  # whose patterns were given up

    @classmethod
    def from_final_record(cls, attempt: AttemptDir) -> Unread | None:
        """Reads it from the final record of the run; None while there is no such record."""
        final = read_json(attempt.run.final)
        if final is None:
            return None
        unread = final.get("unread") if isinstance(final, dict) else None
        unread = unread if isinstance(unread, dict) else {}
        metrics = unread.get("metrics")
        return cls(str(unread.get("logs") or ""), tuple(map(str, metrics)) if isinstance(metrics, list) else ())

    def to_json(self) -> dict[str, Any]:
        return {"logs": self.logs, "metrics": list(self.metrics)}

    def reason(self, job: Job, name: str) -> str:
        """Why the logs gave no value of a metric, as the end of a sentence about a rank; empty if they were read for it."""
        if self.logs:
            return f"reported no {name}: its log was not read, for {self.logs}"
        if name not in self.metrics:
            return ""
        pattern = job.metrics[name].pattern
        shown = pattern if len(pattern) <= SHOWN else pattern[:SHOWN] + "..."
        return f"reported no {name}: its pattern `{shown}` takes too long for a line of a log; {HINT}"


def wanted(job: Job) -> bool:
    """True if logs have to be read for metrics, which takes time where they are long."""
    return job.bench is not None or any(metric.pattern for metric in job.metrics.values())


def logs(attempt: AttemptDir, job: Job) -> dict[int, str]:
    """The path of the log of each rank. Ranks that a launcher started have theirs on the node where it placed them."""
    found: dict[int, str] = {}
    for index in attempt.node_indexes():
        for path in attempt.node(index).rank_logs():
            match = _LOG.match(os.path.basename(path))
            if match:
                found[int(match.group(1))] = path
    return found or {rank: attempt.node(node).log(name) for name, rank, node in job.programs if job.alone}


def patterns(job: Job, unread: Unread | None) -> Patterns:
    """The patterns of the job, without those that the first reader gave up."""
    skipped = unread.metrics if unread else ()
    given = {name: metric.pattern for name, metric in job.metrics.items() if metric.pattern and name not in skipped}
    return Patterns(given, LIMIT if unread is None else LATER)


def read(path: str, patterns: Patterns) -> LogContent:
    """Reads a log in one pass."""
    reader = mllog.Reader()
    matches: dict[str, Matches] = {}

    def found(name: str, text: str) -> None:
        matches.setdefault(name, Matches()).add(text)

    for line in _lines(path):
        reader.feed(line)
        patterns.search(line, found)
    return reader.points, reader.edges, matches


def _lines(path: str) -> Iterator[str]:
    """The lines of a log; a carriage return also ends one, as in progress bars."""
    with suppress(OSError), open_regular(path) as file:
        yield from (line for whole in _cut(file) for line in whole.decode("utf-8", "replace").split("\r"))


def _cut(file: BinaryIO) -> Iterator[bytes]:
    """Splits at newlines; cuts overlong lines at a carriage return or space, so that no number is split."""
    rest = b""
    for piece in iter(lambda: file.readline(LONGEST), b""):
        piece = rest + piece
        whole = piece.endswith(b"\n")
        end = len(piece) if whole else piece.rfind(b"\r") + 1 or piece.rfind(b" ") + 1 or len(piece)
        yield piece[:end].rstrip(b"\n")
        rest = piece[end:]
    yield rest


def events(path: str) -> Iterator[tuple[mllog.Event, str]]:
    """The `:::MLLOG` events of a log, each with its line as it was written, without the prefix of a launcher."""
    for line in _lines(path):
        if (event := mllog.parse(line)) is not None:
            yield event, mllog.TOKEN + line.rpartition(mllog.TOKEN)[2].strip()
