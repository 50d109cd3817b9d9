"""Kills what is left running on this machine of a run that was lost."""

from __future__ import annotations

import os
import time

from muster.linux import proc
from muster.linux.run_processes import kill_marked, kill_writing
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
        if not kill_marked(run_id) and not kill_writing(run_id) and _remove_groups(run_id):
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
