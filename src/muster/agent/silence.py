"""Noticing that a run has gone silent, and asking its ranks where they hang."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import Dict, List, Tuple

from muster.agent.processes import Processes
from muster.runs.layout import AttemptDir


class Silence:
    """Watches the sizes of everything a run writes; clocks of other machines do not matter."""

    def __init__(self, attempt: AttemptDir, shared: str, limit: float) -> None:
        self._attempt = attempt
        self._shared = shared
        self.limit = limit
        self._seen: Dict[str, Tuple[int, int]] = {}
        self._since = time.monotonic()

    @property
    def pause(self) -> float:
        return min(30.0, max(0.02, self.limit / 8))

    def over(self) -> bool:
        """Whether nothing was written for as long as the limit."""
        now = self._look()
        if now != self._seen:
            self._seen, self._since = now, time.monotonic()
        return time.monotonic() - self._since >= self.limit

    def _look(self) -> Dict[str, Tuple[int, int]]:
        found: Dict[str, Tuple[int, int]] = {}
        folders = [self._shared]
        for index in self._attempt.node_indexes():
            node = self._attempt.node(index)
            folders += [node.logs, node.results]
        for folder in folders:
            try:
                for entry in os.scandir(folder):
                    info = entry.stat(follow_symlinks=False)
                    found[entry.path] = (info.st_size, info.st_mtime_ns)
            except OSError:
                continue
        return found


def dump_stacks(processes: Processes, folder: str) -> List[str]:
    """Writes where the Python processes of this node are; returns the files. py-spy where it can, else faulthandler."""
    os.makedirs(folder, exist_ok=True)
    spy = shutil.which("py-spy")
    files: List[str] = []
    asked = False
    for pid in processes.others():
        name = _name(pid)
        if not name.startswith("python"):
            continue
        path = "%s/%s-%d.txt" % (folder, _process_of(processes, pid), pid)
        if spy and _spy(spy, pid, path):
            files.append(path)
        else:
            os.kill(pid, signal.SIGABRT)  # PYTHONFAULTHANDLER=1: the stacks go into the rank's log
            asked = True
    if asked:
        time.sleep(0.2)  # for the log to be written before the gang is stopped
    return files


def _spy(spy: str, pid: int, path: str) -> bool:
    with open(path, "wb") as file:
        try:
            done = subprocess.run([spy, "dump", "--pid", str(pid)], stdout=file, stderr=subprocess.DEVNULL, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            done = None
    if done is not None and done.returncode == 0:
        return True
    os.unlink(path)
    return False


def _name(pid: int) -> str:
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return ""


def _process_of(processes: Processes, pid: int) -> str:
    try:
        session = os.getsid(pid)
    except ProcessLookupError:
        return "process"
    known = processes.running.get(session)
    return known.name if known else "process"
