"""Processes that belong to a run by the mark in their environment, also where no tree of processes holds them any more."""

from __future__ import annotations

import os
import signal
from typing import List

from muster.runs import proc


def marked(run_id: str) -> List[int]:
    """The living processes of a run that this user may see, this one apart."""
    mark = b"MUSTER_RUN=" + os.fsencode(run_id)
    found = (pid for pid in proc.pids() if mark in proc.read("/proc/%d/environ" % pid).split(b"\0"))
    return [pid for pid in found if pid != os.getpid() and proc.alive(pid)]


def kill_marked(run_id: str) -> int:
    """Kills them; returns how many there were."""
    pids = marked(run_id)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return len(pids)
