"""Numbers in the logs of ranks: what the patterns of the job find, and `:::MLLOG` lines. Logs may be larger than memory."""

from __future__ import annotations

import os
import re
from array import array
from dataclasses import dataclass, field
from typing import BinaryIO, Dict, Iterator, List, Optional

from muster.job import Job
from muster.runs import mllog, numbers
from muster.runs.layout import AttemptDir
from muster.runs.points import Edge, Point
from muster.runs.untrusted import open_regular

LONGEST = 1 << 16  # bytes of a line; a longer one is read in pieces
_LOG = re.compile(r"rank-(\d+)\.log\Z")


@dataclass
class Matches:
    """What the pattern of a metric found in a log: numbers, until something else was found."""

    values: "array[float]" = field(default_factory=lambda: array("d"))
    wrong: Optional[str] = None

    def add(self, text: str) -> None:
        value = numbers.read(text)
        if value is not None:
            self.values.append(value)
        elif self.wrong is None:
            self.wrong = text


@dataclass(frozen=True)
class Logged:
    """What one log holds."""

    points: List[Point]
    edges: List[Edge]
    matches: Dict[str, Matches]  # by metric


def wanted(job: Job) -> bool:
    """Whether logs can hold numbers that matter; reading them takes time where they are long."""
    return job.bench is not None or any(metric.pattern for metric in job.metrics.values())


def logs(attempt: AttemptDir, job: Job) -> Dict[int, str]:
    """The log of each rank. Ranks that a launcher started have theirs on the node where it put them."""
    found: Dict[int, str] = {}
    for index in attempt.node_indexes():
        for path in attempt.node(index).rank_logs():
            match = _LOG.match(os.path.basename(path))
            if match:
                found[int(match.group(1))] = path
    return found or {rank: attempt.node(node).log(name) for name, rank, node in job.programs if job.alone}


def read(path: str, job: Job) -> Logged:
    """Reads a log once for everything."""
    patterns = {name: re.compile(metric.pattern) for name, metric in job.metrics.items() if metric.pattern}
    reader = mllog.Reader()
    matches: Dict[str, Matches] = {}
    for line in _lines(path):
        reader.take(line)
        for name, pattern in patterns.items():
            for match in pattern.finditer(line):
                matches.setdefault(name, Matches()).add(match.group(1) or "")
    return Logged(reader.points, reader.edges, matches)


def _lines(path: str) -> Iterator[str]:
    """The lines of a log; a carriage return ends one, too, as progress bars mean it."""
    try:
        with open_regular(path) as file:
            yield from (line for whole in _cut(file) for line in whole.decode("utf-8", "replace").split("\r"))
    except OSError:
        return


def _cut(file: BinaryIO) -> Iterator[bytes]:
    """Lines that end with a newline, and what is longer than any in pieces that end where no number does."""
    rest = b""
    for piece in iter(lambda: file.readline(LONGEST), b""):
        piece = rest + piece
        whole = piece.endswith(b"\n")
        end = len(piece) if whole else piece.rfind(b"\r") + 1 or piece.rfind(b" ") + 1 or len(piece)
        yield piece[:end].rstrip(b"\n")
        rest = piece[end:]
    yield rest


def events(path: str) -> Iterator[tuple[mllog.Event, str]]:
    """The `:::MLLOG` events of a log, each with its line as it was written, without what a launcher wrote before it."""
    for line in _lines(path):
        event = mllog.parse(line) if mllog.TOKEN in line else None
        if event is not None:
            yield event, mllog.TOKEN + line.rpartition(mllog.TOKEN)[2].strip()
