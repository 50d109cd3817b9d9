"""The log of a task: what was written on a node before its ranks and by them, one after the other, as one text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from muster.job import Job
from muster.records.files import file_size
from muster.records.layout import RunDir
from muster.server.modelarts.stored import Stored
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.reading import logs

FIRST = ("setup",)
PIECE = 1 << 20
LONGEST_LINE = 64 << 10  # bytes of a line that are shown


@dataclass(frozen=True)
class Part:
    """The log of one process."""

    process: str
    path: str
    size: int


def parts(platform: Platform, job: Stored, node: int) -> tuple[RunDir, list[Part]]:
    """The logs of a node in the last attempt that the service has, too: not of what Muster itself runs there."""
    run = platform.run_dir(job.row)
    if job.row.stage not in (rows.RUNNING, rows.ENDED):
        return run, []
    found = logs.found(run)
    last = max((attempt for (attempt, _, _), _ in found), default=0)
    shown = {*FIRST, *(process for process, _, index in Job.from_json(job.row.job).programs if index == node)}
    own = [
        (process, path) for (attempt, index, process), path in found if (attempt, index) == (last, node) and process in shown
    ]
    return run, [Part(process, path, file_size(path)) for process, path in sorted(own, key=lambda one: _order(one[0]))]


def _order(process: str) -> tuple[bool, list[tuple[bool, int, str]]]:
    """The one that comes first, then by number: rank-2 before rank-10."""
    pieces = [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", process)]
    return process not in FIRST, pieces


def tail(run: RunDir, found: list[Part], most: int) -> bytes:
    """The newest bytes of a log."""
    left, pieces = most, []
    for part in reversed(found):
        size = min(left, part.size)
        if size:
            pieces.append(logs.read(run, part.path, part.size - size, size))
            left -= size
    return b"".join(reversed(pieces))


@dataclass(frozen=True)
class Lines:
    """Some lines of a log, numbered from 1."""

    first: int
    last: int
    lines: list[bytes]


def after(run: RunDir, found: list[Part], line: int, most: int) -> Lines:
    """The lines behind one, the oldest first."""
    taken: list[bytes] = []
    for number, text in enumerate(_lines(run, found), 1):
        if number > line:
            taken.append(text)
        if len(taken) == most:
            break
    return Lines(line + 1 if taken else line, line + len(taken), taken)


def before(run: RunDir, found: list[Part], line: int | None, most: int) -> Lines:
    """The lines before one, or the last where there is none; the oldest first."""
    kept: deque[bytes] = deque(maxlen=most)
    number = 0
    for number, text in enumerate(_lines(run, found), 1):
        if line is not None and number >= line:
            number -= 1
            break
        kept.append(text)
    return Lines(number - len(kept) + 1 if kept else number, number, list(kept))


def _lines(run: RunDir, found: list[Part]) -> Iterator[bytes]:
    """All lines, cut where they are long, without the newline."""
    for part in found:
        rest = b""
        for piece in logs.pieces(run, part.path):
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()[: LONGEST_LINE + 1]
            yield from (line[:LONGEST_LINE] for line in lines)
        if rest:
            yield rest[:LONGEST_LINE]


def text_of(lines: list[bytes]) -> str:
    return b"".join(line + b"\n" for line in lines).decode("utf-8", "replace")
