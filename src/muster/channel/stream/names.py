"""Which files of a node are mirrored: its declared names, and what lies in its folders of logs, stacks and results."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice

from muster.records.files import files_below
from muster.records.layout import NODE_FILES, NODE_TOPICS
from muster.records.untrusted import LARGEST, open_regular

FOLDERS = ("logs", "stacks", "results")
MOST_FILES = 20000
DEEPEST = 16
LONGEST = 1024  # bytes of a name
TAIL = 1 << 16  # bytes of a log by which both sides see that they have the same one
TOPICS = frozenset(f"{topic}.json" for topic in NODE_TOPICS)
LAST = "exit.json"  # sent when all else is


def is_mirrored(name: str) -> bool:
    """True if a node may write a file of this name, relative to its directory."""
    parts = name.split("/")
    if len(parts) == 1:
        return name in NODE_FILES
    proper = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    return proper and parts[0] in FOLDERS and len(parts) <= DEEPEST and len(name.encode("utf-8", "surrogateescape")) <= LONGEST


def is_log(name: str) -> bool:
    """True if a file only grows: it is sent by offset, all others whole."""
    return name.endswith((".log", ".jsonl"))


def most_bytes(name: str) -> int:
    """The most bytes that are sent of a file that is sent whole."""
    return NODE_FILES.get(name, LARGEST)


def mirrored_below(folder: str) -> Iterator[str]:
    """The names of the files in a node's directory that are mirrored, in a fixed order."""
    yield from NODE_FILES
    for inner in FOLDERS:
        for path in islice(files_below(f"{folder}/{inner}"), MOST_FILES):
            name = path[len(folder) + 1 :]
            if not name.endswith(".tmp") and is_mirrored(name):
                yield name


def fingerprint(folder: str, name: str, size: int | None = None) -> tuple[int, int]:
    """The size of a file, and a checksum: of all of it, or of the end of a log, before `size`. Raises OSError."""
    with open_regular(f"{folder}/{name}", folder) as file:
        if not is_log(name):
            data = file.read(most_bytes(name) + 1)
            return len(data), zlib.crc32(data)
        length = file.seek(0, 2) if size is None else size
        file.seek(max(0, length - TAIL))
        return length, zlib.crc32(file.read(min(TAIL, length)))
