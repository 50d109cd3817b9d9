"""Waiting for files to change: inotify, and a short sleep where it is not to be had or other machines write as well.

Own code over libc: the packages for it were slower than the events they report, and nodes have no packages.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import struct
from collections.abc import Iterable

_MODIFY, _CREATE, _MOVED_TO = 0x2, 0x100, 0x80
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_EVENT = struct.Struct("iIII")
# File systems that only this machine writes to. On any other, inotify may miss events.
_LOCAL = frozenset((0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x858458F6, 0x794C7630, 0x2FC12FC1, 0xF2F52010, 0xCA451A4E))
POLL = 0.05


def readable(descriptors: Iterable[int], timeout: float | None) -> bool:
    """Waits until one of the descriptors can be read or the time has passed. Unlike select, for any number of them."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else math.ceil(max(0.0, timeout) * 1000)))


def shared(path: str) -> bool:
    """True if other machines may write to a directory: it is on no file system that is known to be this machine's own."""
    found = ctypes.create_string_buffer(512)
    if ctypes.CDLL(None).statfs(os.fsencode(path), found) != 0:
        return True
    return struct.unpack_from("I", found.raw)[0] not in _LOCAL  # the first field of a structure that differs by machine


class Watch:
    """A set of watched directories. `wait` returns what changed since the last call."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._paths: dict[int, str] = {}
        self._known: dict[str, int] = {}

    @property
    def polling(self) -> bool:
        """True if inotify cannot be used: changes have to be polled for."""
        return bool(self._descriptor < 0)

    def fileno(self) -> int:
        return int(self._descriptor)

    def add(self, path: str, writes: bool = False) -> bool:
        """Watches a directory for new files, and with `writes` for what is written to them; false if it is not there."""
        if path in self._known:
            return True
        if not os.path.isdir(path):
            return False
        mask = _CREATE | _MOVED_TO | (_MODIFY if writes else 0)
        number = -1 if self.polling else self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask)
        if not self.polling and (number < 0 or shared(path)):
            self.close()  # out of watches, or blind to what other machines write: poll from now on
        self._paths[number] = path
        self._known[path] = number
        return True

    def remove(self, path: str) -> None:
        """Watches a directory no more."""
        number = self._known.pop(path, -1)
        self._paths.pop(number, None)
        if number >= 0 and not self.polling:
            self._libc.inotify_rm_watch(self._descriptor, number)

    def drain(self) -> list[tuple[str, str]]:
        """Returns changes as (directory, name); ("", "") when events were lost and everything must be looked at."""
        if self.polling:
            self._refresh()
            return [("", "")]
        changed: list[tuple[str, str]] = []
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                return list(dict.fromkeys(changed))
            offset = 0
            while offset < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, offset)
                offset += _EVENT.size
                name = data[offset : offset + length].rstrip(b"\0")
                offset += length
                if mask & _OVERFLOW:
                    changed.append(("", ""))
                elif not mask & _IGNORED:
                    changed.append((self._paths.get(number, ""), os.fsdecode(name)))

    def _refresh(self) -> None:
        """Has network file systems ask their servers what is new, which they do when a directory is opened."""
        for path in self._known:
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            except OSError:
                continue  # it was deleted

    def wait(self, timeout: float, others: tuple[int, ...] = ()) -> list[tuple[str, str]]:
        """Waits for a change, for one of the other descriptors, or for the time to pass."""
        readers = [descriptor for descriptor in (self._descriptor, *others) if descriptor >= 0]
        limit = min(timeout, POLL) if self.polling else timeout
        readable(readers, limit)
        return self.drain()

    def close(self) -> None:
        if not self.polling:
            os.close(self._descriptor)
            self._descriptor = -1
