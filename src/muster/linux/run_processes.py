"""Processes that belong to a run although no tree of processes holds them any more: by the mark in their environment, or the
log of a rank that they write to."""

from __future__ import annotations

import os
import signal

from muster.linux import proc


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


def kill_marked(run_id: str) -> int:
    """Kills those with the mark; returns how many there were."""
    return _kill(marked(run_id))


def kill_writing(run_id: str) -> int:
    """Kills those that write to logs; returns how many there were."""
    return _kill(writing(run_id))


def _kill(pids: list[int]) -> int:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return len(pids)
