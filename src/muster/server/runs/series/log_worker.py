"""Reads numbers from logs on behalf of the server: `python -m muster.server.runs.series.log_worker`, a request on its input.

It is a process of its own because anybody writes the patterns of jobs, and some of them may take forever: it bounds its memory
and its time, and the server kills it where that is not enough.
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

from muster.metrics import mllog, numbers
from muster.metrics.log_numbers import LONGEST
from muster.metrics.patterns import LIMIT, Patterns
from muster.records.untrusted import open_regular
from muster.server.runs.series.kept import Kept

MEMORY = 1 << 30  # bytes
CPU = 10  # seconds
SECONDS = 2.0  # after which it leaves the rest to the next one
PIECE = 1 << 20
METRICS = 100  # names of metrics in all logs of an attempt
NAME = 60  # characters
LOST = 1 << 62  # where a log has ended that cannot be read
TOKEN = mllog.TOKEN.encode()
Source = str  # mllog, or pattern
Key = tuple[Source, str]  # and the name of a metric


@dataclass
class Log:
    """How far a log was read."""

    rank: int
    path: str
    below: str  # the directory behind which no part of the path may be a link
    since: float  # events before are of an earlier attempt
    offset: int = 0
    size: int = -1  # that it had when it was read to its end
    kept: dict[Key, Kept] = field(default_factory=dict)


@dataclass
class Request:
    patterns: Mapping[str, str]  # by metric
    names: list[Key]  # that were found before
    ended: bool  # nothing is written any more, so that the last line ends where its log does
    logs: list[Log]

    def to_bytes(self) -> bytes:
        logs = [{**vars(log), "kept": _places(log.kept)} for log in self.logs]
        return json.dumps({"patterns": dict(self.patterns), "names": self.names, "ended": self.ended, "logs": logs}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Request":
        found = json.loads(data)
        logs = [Log(**{**log, "kept": _kept(log["kept"])}) for log in found["logs"]]
        return cls(found["patterns"], [tuple(name) for name in found["names"]], found["ended"], logs)


@dataclass
class Answer:
    """Logs with the numbers that are new in them, and the metrics whose patterns take too long."""

    logs: list[Log]
    given_up: list[str]

    def to_bytes(self) -> bytes:
        """A line of JSON, behind which all numbers follow as they lie in memory."""
        logs = [{**vars(log), "kept": _places(log.kept)} for log in self.logs]
        found = [kept for log in self.logs for kept in log.kept.values()]
        tail = b"".join(part.tobytes() for kept in found for part in (kept.times, kept.steps, kept.values))
        return json.dumps({"logs": logs, "given_up": self.given_up}).encode() + b"\n" + tail

    @classmethod
    def from_bytes(cls, data: bytes) -> "Answer":
        head, _, tail = data.partition(b"\n")
        found = json.loads(head)
        answer, place = cls([Log(**{**log, "kept": _kept(log["kept"])}) for log in found["logs"]], found["given_up"]), 0
        for log, told in zip(answer.logs, found["logs"], strict=True):
            for kept, (*_, length) in zip(log.kept.values(), told["kept"], strict=True):
                for part in (kept.times, kept.steps, kept.values):
                    part.frombytes(tail[place : place + 8 * length])
                    place += 8 * length
        return answer


def _places(kept: Mapping[Key, Kept]) -> list[list[Any]]:
    return [[*key, one.count, one.stride, one.first, len(one.values)] for key, one in kept.items()]


def _kept(places: Iterable[list[Any]]) -> dict[Key, Kept]:
    return {(source, name): Kept(count, stride, first) for source, name, count, stride, first, _ in places}


class Reading:
    """One turn of reading."""

    def __init__(self, request: Request) -> None:
        self._names = set(request.names)
        self._ended = request.ended
        self._any = bool(request.patterns)
        self.patterns = Patterns(request.patterns, LIMIT)

    def read(self, log: Log, until: float) -> None:
        """Reads on in a log, to its end or until that moment of the monotonic clock."""
        with open_regular(log.path, log.below) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(log.offset)
            for lines in self._pieces(file, log):
                for line in lines:
                    self._take(log, line)
                if time.monotonic() > until:
                    return
            log.size = size
            if self._ended:
                log.offset = size

    def _pieces(self, file: BufferedReader, log: Log) -> Iterator[list[str]]:
        """The lines of a log, as results have them: a carriage return ends one, too, and overlong ones are cut."""
        skipping = not self._any
        while True:
            if skipping:
                yield from self._skip(file, log)
            piece = file.readline(LONGEST)
            if not piece.endswith(b"\n"):
                end = piece.rfind(b"\r") + 1
                if len(piece) == LONGEST:
                    end = end or piece.rfind(b" ") + 1 or len(piece)
                elif self._ended:
                    end = len(piece)
                if not end:
                    return  # nothing, or a line that is still being written
                piece = piece[:end]
                file.seek(log.offset + end)
            log.offset += len(piece)
            skipping = not self._any and TOKEN not in piece
            yield piece.rstrip(b"\n").decode("utf-8", "replace").split("\r")

    def _skip(self, file: BufferedReader, log: Log) -> Iterator[list[str]]:
        """Goes on to the next line with an event; yields no lines after each piece, so that the clock is seen."""
        while data := file.read(PIECE):
            at = data.find(TOKEN)
            end = data.rfind(b"\n", 0, at if at >= 0 else len(data)) + 1
            if at < 0 and not end and len(data) == PIECE:
                end = len(data) - len(TOKEN)
            log.offset += end
            file.seek(log.offset)
            if at >= 0 or len(data) < PIECE:
                return
            yield []

    def _take(self, log: Log, line: str) -> None:
        if (event := mllog.parse(line)) is not None:
            for point in mllog.points(event):
                if (point.t or 0.0) >= log.since:
                    self._add(log, ("mllog", point.name[:NAME]), point.t, point.step, point.value)

        def found(name: str, text: str) -> None:
            value, key = numbers.read(text), ("pattern", name)
            if value is not None:
                self._add(log, key, None, log.kept[key].count if key in log.kept else 0, value)

        self.patterns.search(line, found)

    def _add(self, log: Log, key: Key, moment: float | None, step: float | None, value: float) -> None:
        if not math.isfinite(value) or (key not in self._names and len(self._names) >= METRICS):
            return
        self._names.add(key)
        log.kept.setdefault(key, Kept()).add(_or_nan(moment), _or_nan(step), value)


def _or_nan(number: float | None) -> float:
    """NaN for nothing, and for a number of an event that no float can be."""
    try:
        return math.nan if number is None else float(number)
    except OverflowError:
        return math.nan


def answer(request: Request) -> Answer:
    reading, end = Reading(request), time.monotonic() + SECONDS
    with reading.patterns.timed():
        for index, log in enumerate(request.logs):
            now = time.monotonic()
            try:
                reading.read(log, now + (end - now) / (len(request.logs) - index))
            except OSError:
                log.offset = log.size = LOST  # it is gone, or something else stands there
    return Answer(request.logs, reading.patterns.given_up)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    os.nice(10)
    sys.stdout.buffer.write(answer(Request.from_bytes(sys.stdin.buffer.read())).to_bytes())


if __name__ == "__main__":
    main()
