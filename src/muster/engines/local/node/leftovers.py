"""Kills what is left running of a run on this machine, although no tree of processes holds it any more.

Such a process is known by the mark of the run in its environment, or by the log of a rank that it writes to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from muster.linux import proc
from muster.linux.signals import send

LOOKS = 3  # a process that forks and exits while it is looked for can be missed, but hardly so often
LIMIT = 5.0  # seconds for what was killed to be gone; a process may wait for a disk


def sweep(run_id: str) -> None:
    """Kills the agents of a run whose supervisor is gone, all that they started, and what carries the marker of the run."""
    agents = os.fsencode(f"/{run_id}\0--code\0")  # they share the command line of their supervisor
    deadline = time.monotonic() + LIMIT
    for pid in [pid for pid in proc.pids() if agents in proc.command_line(pid) and pid != os.getpid()]:
        _end_tree(pid, deadline)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if not kill_marked(run_id) and not _kill_writing(run_id) and _remove_groups(run_id):
            return
        time.sleep(0.01)


def _end_tree(agent: int, deadline: float) -> None:
    """Kills an agent, and before it all that it started: as long as it lives, also stopped, its orphans are its children."""
    empty = 0
    while empty < LOOKS and time.monotonic() < deadline:
        left = [pid for pid in proc.descendants(agent) if pid != os.getpid() and send(pid)]
        empty = 0 if left else empty + 1
        if left:
            time.sleep(0.002)
    send(agent)


def _remove_groups(run_id: str) -> bool:
    """Removes the control groups that kept the memory limit of a run; false while one has processes."""
    done = True
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        for name in names:
            if name.startswith(f"muster-{run_id}-"):
                try:
                    os.rmdir(os.path.join(folder, name))
                except FileNotFoundError:
                    continue
                except OSError:
                    done = False
    return done


def kill_marked(run_id: str, *more: str) -> bool:
    """Kills the processes with the run, and `more`, in their environment; False if there were none that this user may see."""
    marks = set(map(os.fsencode, (f"MUSTER_RUN={run_id}", *more)))
    return _kill(pid for pid in proc.pids() if marks <= set(proc.read(f"/proc/{pid}/environ").split(b"\0")))


def _kill_writing(run_id: str) -> bool:
    """Kills the processes that write to the log of a rank, which they can only have from that rank; readers are others."""
    return _kill(pid for pid in proc.pids() if _writes(pid, run_id))


def _kill(pids: Iterable[int]) -> bool:
    """Kills the living processes among these, but this one; returns False if there were none."""
    found = [pid for pid in pids if pid != os.getpid() and proc.alive(pid)]
    for pid in found:
        send(pid)
    return bool(found)


def _writes(pid: int, run_id: str) -> bool:
    return any(_is_log(pid, number, run_id) and _is_writable(pid, number) for number in proc.listed(f"/proc/{pid}/fd"))


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
