"""Searching logs for a text, or for the first error: in time that grows with their size alone, a piece at a time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.records.layout import RunDir
from muster.records.untrusted import open_regular
from muster.server.runs.reading.logs import Key

PIECE = 1 << 20  # bytes that are searched at once; nothing else of the server runs meanwhile
LONGEST = 1 << 20  # bytes of a line; a longer one is searched in parts
SHOWN = 160  # bytes that are shown before and behind a match
# Literal words, so that the time of a match does not depend on what ranks write.
ERRORS = (
    b"Traceback (most recent call last)",
    b"Error:",
    b"ERROR",
    b"error:",
    b"Exception:",
    b"FATAL",
    b"Fatal Python error",
    b"Segmentation fault",
    b"core dumped",
    b"out of memory",
    b"Killed",
    b"panic:",
    b"terminate called",
)
_ERRORS = re.compile(b"|".join(map(re.escape, ERRORS)))


@dataclass(frozen=True)
class Hit:
    """A line with a match."""

    log: Key
    offset: int  # of the line
    at: int  # of the match
    before: str  # the line around the match, cut where it is long
    match: str
    after: str


@dataclass(frozen=True)
class Searched:
    """How far a log was searched."""

    log: Key
    offset: int


class Needle:
    """What is looked for: a text, in any case unless it is exact, or words that errors have where there is none."""

    def __init__(self, text: str, exact: bool = False) -> None:
        flags = 0 if exact or not text else re.IGNORECASE
        self.pattern = re.compile(re.escape(text.encode()), flags) if text else _ERRORS


def search(run: RunDir, key: Key, path: str, needle: Needle, offset: int = 0) -> Iterator[Hit | Searched]:
    """Yields the lines of a log that match, from an offset on, and after each piece how far it is."""
    try:
        file = open_regular(path, run.path)
    except OSError:
        return
    with file:
        file.seek(offset)
        rest = b""
        while piece := file.read(PIECE):
            data = rest + piece
            end = data.rfind(b"\n") + 1 or (len(data) if len(data) > LONGEST else 0)
            yield from _hits(key, data[:end], offset, needle)
            offset += end
            rest = data[end:]
            yield Searched(key, offset)
        yield from _hits(key, rest, offset, needle)
        yield Searched(key, offset + len(rest))


def _hits(key: Key, data: bytes, offset: int, needle: Needle) -> Iterator[Hit]:
    place = 0
    while found := needle.pattern.search(data, place):
        start = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        before = data[max(start, found.start() - SHOWN) : found.start()]
        after = data[found.end() : min(end, found.end() + SHOWN)]
        texts = (part.decode("utf-8", "replace") for part in (before, found.group(), after))
        yield Hit(key, offset + start, offset + found.start(), *texts)
        place = end + 1  # one match of a line is shown
        if place > len(data):
            return
