"""Logs as byte positions: reading can stop and resume anywhere and misses or repeats nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable

from muster.records.untrusted import open_regular

CHUNK = 1 << 20
TAIL = 1 << 16


class Cursor:
    """A place in a log file."""

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._descriptor: int | None = None
        self._read = False  # whether the log has been as long as the offset

    def read(self, size: int = CHUNK) -> bytes:
        """Returns the bytes that follow; none while there are no more. A log that was truncated begins anew."""
        if self._descriptor is None:
            try:
                with open_regular(self.path) as file:
                    self._descriptor = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
            except OSError:  # not there yet, or a rank has put something else in its place
                return b""
        data = os.pread(self._descriptor, size, self.offset)
        if not data and self._read and os.fstat(self._descriptor).st_size < self.offset:
            self.offset = 0
            data = os.pread(self._descriptor, size, 0)
        self.offset += len(data)
        self._read = self._read or bool(data)
        return data

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def tail_offset(path: str, lines: int) -> int:
    """The position from which the last `lines` lines follow."""
    try:
        with open_regular(path) as file:
            end = position = file.seek(0, os.SEEK_END)
            found = 0
            if lines == 0:
                return end
            while position > 0:
                start = max(0, position - TAIL)
                file.seek(start)
                block = file.read(position - start)
                if position == end and block.endswith(b"\n"):
                    block = block[:-1]
                at = len(block)
                while (at := block.rfind(b"\n", 0, at)) >= 0:
                    found += 1
                    if found == lines:
                        return start + at + 1
                position = start
            return 0
    except OSError:
        return 0


def last_lines(path: str, count: int) -> list[str]:
    """The last lines of a log as text, each cut to a length that can be read; none of what is no log."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            data = file.read(TAIL)
    except OSError:
        return []
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.rstrip("\n").split("\n")] if text.strip() else []
    return [line[:2000] for line in lines[-count:]]


def exception_line(lines: list[str]) -> str:
    """The line that names the exception of the last Python traceback among these lines."""
    for index in range(len(lines) - 1, -1, -1):
        found = ""
        prefix, header, _ = lines[index].partition("Traceback (most recent call last):")
        if header:  # PyTorch writes `[rank0]: ` before every line, a group of exceptions a frame
            prefix = prefix.replace("+ Exception Group ", "| ")
            found = _unindented(line[len(prefix) :] for line in lines[index + 1 :] if line.startswith(prefix))
        elif lines[index].startswith('  File "'):  # a file that cannot be compiled has no traceback
            found = _unindented(lines[index + 1 :])
            found = found if found.partition(":")[0] in ("SyntaxError", "IndentationError", "TabError") else ""
        if found:
            return found
    return ""


def _unindented(lines: Iterable[str]) -> str:
    return next((line.strip() for line in lines if line and not line[0].isspace()), "")
