"""Which files of a node are mirrored: its declared names, and what lies in its folders of logs, stacks and results."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from itertools import islice

from muster.records.files import files_below
from muster.records.layout import NODE_FILES, NODE_TOPICS
from muster.records.untrusted import open_regular

FOLDERS = ("logs", "stacks", "results")
MOST_FILES = 20000  # in each folder
DEEPEST = 16
LONGEST = 1024  # bytes of a name
LARGEST = 16 << 30  # bytes of a file that is sent whole
SMALL = 1 << 20  # bytes of one that is read at once; larger ones are read piece by piece while they are sent
MATCHED = 1 << 10  # bytes at the beginning of a log, and before its offset, by which a rewritten one is noticed
TAIL = 1 << 16  # bytes before the offset by which both sides of a new connection see that they have the same one
TOPICS = frozenset(f"{topic}.json" for topic in NODE_TOPICS)
LAST = "exit.json"  # sent when all else is


class Admitted:
    """Names of files that have come up: so many in each folder, and declared ones always, whatever ranks write."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {folder: set() for folder in FOLDERS}

    def admit(self, name: str) -> bool:
        """Takes in a mirrored name; false where its folder has too many."""
        if name in NODE_FILES:
            return True
        known = self._names[name.partition("/")[0]]
        if name not in known and len(known) >= MOST_FILES:
            return False
        known.add(name)
        return True


def is_mirrored(name: str) -> bool:
    """True if a node may write a file of this name, relative to its directory."""
    parts = name.split("/")
    if len(parts) == 1:
        return name in NODE_FILES
    proper = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    return proper and parts[0] in FOLDERS and len(parts) <= DEEPEST and 0 < _length(name) <= LONGEST


def _length(name: str) -> int:
    """The bytes of a name on a disk; 0 for one that no disk can have: halves of characters that stand for no byte."""
    try:
        return len(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return 0


def is_inner_link(name: str, target: str) -> bool:
    """True for a link in results that leads further down there, whatever other links of this kind are on its way."""
    parts = target.split("/")
    proper = name.startswith("results/") and all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    return proper and 0 < _length(target) <= LONGEST


def is_log(name: str) -> bool:
    """True if a file only grows: it is sent by offset, all others whole."""
    return name.endswith((".log", ".jsonl"))


def is_large(name: str, size: int) -> bool:
    """True if a file is sent piece by piece, when nobody has written to it for a moment; topics never are."""
    return size > SMALL and name not in TOPICS and not is_log(name)


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
    """The size of a file, and a checksum: of all of it, or of both ends of a log, until `size`. Raises OSError.

    In the place of the checksum, large files have the time of their last change, which their mirror has from them.
    """
    with open_regular(f"{folder}/{name}", folder) as file:
        info = os.fstat(file.fileno())
        if is_large(name, info.st_size):
            return info.st_size, info.st_mtime_ns
        if not is_log(name):
            data = file.read(most_bytes(name) + 1)
            return len(data), zlib.crc32(data)
        length = file.seek(0, 2) if size is None else size
        start = max(0, length - TAIL)
        file.seek(0)
        head = file.read(min(MATCHED, start))
        file.seek(start)
        return length, zlib.crc32(file.read(min(TAIL, length)), zlib.crc32(head))
