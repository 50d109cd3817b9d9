"""Reads what ranks may have written: regular files only, never through a link, never waiting, bounded in size and depth."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from typing import Any

LARGEST = 64 << 20  # bytes of one JSON document
LONGEST_LINE = 1 << 20  # bytes of one JSON line; a longer one is not read
MOST_LINES = 128 << 20  # bytes of a file of JSON lines
DEEPEST = 64  # levels of nested JSON
LONGEST_INTEGER = 4300  # digits
_IN_NODE = re.compile(r"(.*/attempts/[0-9]+/nodes/[0-9]+)/[^/]+/")
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegular(OSError):
    """Something else than a regular file stands where one is expected."""


class TooLarge(OSError):
    """A file is larger than any that is meant."""


def open_regular(path: str, below: str = "") -> BufferedReader:
    """Opens a regular file for reading; never waits for a FIFO and never follows a link.

    `below` is a directory whose path may lead through links: every part of `path` behind it may not. Without it that is the
    directory of the node that the file is of, else that of the file. Raises NotRegular, or another OSError where the file is
    missing or cannot be read.
    """
    below = below or _node_above(path)
    base = below or os.path.dirname(path) or "."
    parts = os.path.relpath(path, base).split(os.sep) if below else [os.path.basename(path)]
    folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = _open_at(folder, part, os.O_DIRECTORY, path)
            os.close(folder)
            folder = inner
        descriptor = _open_at(folder, parts[-1], 0, path)
    finally:
        os.close(folder)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise _not_regular(kind, path)
    return os.fdopen(descriptor, "rb")


def _node_above(path: str) -> str:
    """The directory of the node in whose directories a file lies: a rank can replace those by links to what others may read."""
    found = _IN_NODE.match(path)
    return found.group(1) if found else ""


def _open_at(folder: int, name: str, flags: int, path: str) -> int:
    if name in ("", ".", ".."):
        raise NotRegular(errno.EINVAL, "it leads elsewhere", path)
    try:
        return os.open(name, flags | os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):  # a link; a link to a directory; a socket
            raise _not_regular(stat.S_IFMT(os.lstat(name, dir_fd=folder).st_mode), path) from None
        raise OSError(error.errno, error.strerror, path) from None


def _not_regular(kind: int, path: str) -> NotRegular:
    return NotRegular(errno.EINVAL, "it is {}, not a regular file".format(_KINDS.get(kind, "something else")), path)


def is_regular(path: str, below: str = "") -> bool:
    """True if `open_regular` would open it."""
    with suppress(OSError):
        open_regular(path, below).close()
        return True
    return False


def read_regular(path: str, most: int, below: str = "") -> bytes:
    """The content of a regular file. Raises OSError also for one that is larger than `most`."""
    with open_regular(path, below) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(path, most)
    return data


def read_if_regular(path: str, most: int) -> bytes:
    """Returns the content of a regular file; nothing where it cannot be read."""
    with suppress(OSError):
        return read_regular(path, most)
    return b""


def _too_large(path: str, most: int) -> TooLarge:
    return TooLarge(errno.EFBIG, f"it is larger than {most >> 20} MB", path)


def read_lines(path: str, below: str = "", most: int = MOST_LINES) -> Iterator[bytes]:
    """The complete lines of a file, without those that are too long. Raises OSError."""
    with open_regular(path, below) as file:
        left, whole = os.fstat(file.fileno()).st_size, True
        if left > most:
            raise _too_large(path, most)
        while left > 0:  # what is written meanwhile is not waited for
            piece = file.readline(LONGEST_LINE)
            ended = piece.endswith(b"\n")
            if whole and ended:
                yield piece[:-1]
            left -= len(piece) or left
            whole = ended


def parse_json(text: bytes) -> Any:
    """The value of a JSON text. Raises ValueError for anything else, and for one that is nested too deeply to be meant."""
    try:
        value = json.loads(text.decode("utf-8"), parse_int=_PARSE_INT)
        if text.count(b"{") + text.count(b"[") <= DEEPEST or _depth(value) <= DEEPEST:
            return value
    except RecursionError:
        pass
    raise ValueError("nested too deeply")


def _bounded_int(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


# Older Pythons take a time that grows with the square of the digits; newer ones have the same limit themselves.
_PARSE_INT = None if hasattr(sys, "get_int_max_str_digits") else _bounded_int


def _depth(value: Any) -> int:
    """How deeply lists and objects are nested."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def plain(value: Any) -> Any:
    """The same value, with null for numbers that are none, and `?` for halves of characters."""
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def printable(text: str) -> str:
    """Text of others on one line, without what would move the cursor or change colours: spaces take the place of it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def number(value: Any) -> float | None:
    """Returns a JSON number as a float, finite or not; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def whole(value: Any) -> int | None:
    """Returns a whole JSON number; None for any other value."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() else None
