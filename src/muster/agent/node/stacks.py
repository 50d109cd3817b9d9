"""Stacks of the Python processes of a node, which show where silent ranks hang."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress

from muster.agent.node.processes import Processes
from muster.linux.signals import send

SPY_LIMIT = 8.0  # for py-spy to look into all processes of a node; the supervisor waits a little longer


def dump(processes: Processes, folder: str) -> tuple[list[str], int]:
    """Writes where the Python processes of this node are: py-spy into files, which are returned, or faulthandler into
    the logs of the processes, whose number is returned."""
    os.makedirs(folder, exist_ok=True)
    pids = [pid for pid in processes.others(but_services=True) if _name(pid).startswith("python")]
    paths = {pid: f"{folder}/{_process_of(processes, pid)}-{pid}.txt" for pid in pids}
    seen = _spy(paths)
    # Ranks have PYTHONFAULTHANDLER=1: the signal makes them write their stacks into their logs.
    asked = [pid for pid in pids if pid not in seen and send(pid, signal.SIGABRT)]
    if asked:
        time.sleep(0.2)  # for the log to be written before the gang is stopped
    return [paths[pid] for pid in seen], len(asked)


def _spy(paths: dict[int, str]) -> list[int]:
    """Asks py-spy about all processes at once; returns those that it could look into."""
    program = shutil.which("py-spy")
    if program is None:
        return []
    deadline = time.monotonic() + SPY_LIMIT
    spies = {}
    for pid, path in paths.items():
        argv = [program, "dump", "--pid", str(pid)]
        try:
            with open(path, "wb") as file:
                spies[pid] = subprocess.Popen(argv, stdout=file, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        except OSError:  # a py-spy for another machine
            return []
    seen = []
    for pid, spy in spies.items():
        try:
            spy.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            spy.kill()
            spy.wait()
        if spy.returncode == 0:
            seen.append(pid)
        else:
            os.unlink(paths[pid])
    return seen


def _name(pid: int) -> str:
    with suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return ""


def _process_of(processes: Processes, pid: int) -> str:
    with suppress(ProcessLookupError, KeyError):
        return processes.running[os.getsid(pid)].name
    return "process"
