"""Signals as events to wait for beside files and sockets; signals to other processes; reaping of children."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Any


class Signals:
    """Collects signals; its descriptor is readable when one came."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _nothing)

    def fileno(self) -> int:
        return self._reader

    def take(self) -> set[int]:
        """The signals that came since the last call."""
        with suppress(BlockingIOError):
            return set(os.read(self._reader, 4096))
        return set()


def send(pid: int, number: int = signal.SIGKILL) -> bool:
    """Sends a signal; returns False for a process that is gone or belongs to another user (a program under sudo)."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def send_to_group(group: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal to a process group, unless it is gone or belongs to another user."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reap_children() -> list[tuple[int, int]]:
    """Reaps all children that have ended, adopted ones included; returns their process ids and statuses."""
    ended: list[tuple[int, int]] = []
    with suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(child)
    return ended


def reap(number: int, frame: Any) -> None:
    """A handler of SIGCHLD that reaps all children that have ended."""
    reap_children()


def _nothing(number: int, frame: Any) -> None:
    """Handles a signal by nothing: without a handler it would not wake the process."""
