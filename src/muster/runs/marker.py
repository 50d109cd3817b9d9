"""Processes that belong to a run by the mark in their environment, also where no tree of processes holds them any more."""

from __future__ import annotations

import os
import signal
from typing import List


def marked(run_id: str) -> List[int]:
    """The living processes of a run that this user may see, this one apart."""
    mark = b"MUSTER_RUN=" + os.fsencode(run_id)
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    return [pid for pid in pids if mark in _read("/proc/%d/environ" % pid).split(b"\0") and not _ended(pid)]


def kill_marked(run_id: str) -> int:
    """Kills them; returns how many there were."""
    pids = marked(run_id)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return len(pids)


def _ended(pid: int) -> bool:
    fields = _read("/proc/%d/stat" % pid).rsplit(b")", 1)
    return len(fields) != 2 or fields[1].split()[0] in (b"Z", b"X")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
