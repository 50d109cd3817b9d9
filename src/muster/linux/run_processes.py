"""Processes that belong to a run although no tree of processes holds them any more: by the mark in their environment, or the
log of a rank that they write to."""

from __future__ import annotations

import os

from muster.linux import proc
from muster.linux.signals import send


def marked(run_id: str) -> list[int]:
    """The living processes of a run that this user may see, this one apart."""
    mark = b"MUSTER_RUN=" + os.fsencode(run_id)
    found = (pid for pid in proc.pids() if mark in proc.read(f"/proc/{pid}/environ").split(b"\0"))
    return [pid for pid in found if pid != os.getpid() and proc.alive(pid)]


def writing(run_id: str) -> list[int]:
    """The living processes that write to the log of a rank, which they can only have from that rank; readers are others."""
    return [pid for pid in proc.pids() if pid != os.getpid() and _writes(pid, run_id) and proc.alive(pid)]


def _writes(pid: int, run_id: str) -> bool:
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_is_log(pid, number, run_id) and _is_writable(pid, number) for number in numbers)


def _is_log(pid: int, number: str, run_id: str) -> bool:
    try:
        folder, name = os.path.split(os.readlink(f"/proc/{pid}/fd/{number}"))
    except OSError:
        return False
    return f"/{run_id}/attempts/" in folder and folder.endswith("/logs") and name.endswith(".log")


def _is_writable(pid: int, number: str) -> bool:
    words = proc.read(f"/proc/{pid}/fdinfo/{number}").split()
    flags = dict(zip(words[::2], words[1::2])).get(b"flags:", b"0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def kill_marked(run_id: str) -> bool:
    """Kills the processes with the mark; returns False if there were none."""
    return _kill(marked(run_id))


def kill_writing(run_id: str) -> bool:
    """Kills the processes that write to logs; returns False if there were none."""
    return _kill(writing(run_id))


def _kill(pids: list[int]) -> bool:
    for pid in pids:
        send(pid)
    return bool(pids)
