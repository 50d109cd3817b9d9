"""Noticing that a run has gone silent, and asking its ranks where they hang."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time

from muster.agent.node.processes import Processes
from muster.records.layout import AttemptDir

SPY_LIMIT = 8.0  # for py-spy to look into all processes of a node; the supervisor waits a little longer


class Silence:
    """Watches the sizes of everything a run writes; clocks of other machines do not matter."""

    def __init__(self, attempt: AttemptDir, shared: str, limit: float) -> None:
        self._attempt = attempt
        self._shared = shared
        self.limit = limit
        self._seen: dict[str, tuple[int, int]] = {}
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

    def _look(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        tops = [self._shared]
        for index in self._attempt.node_indexes():
            node = self._attempt.node(index)
            tops += [node.logs, node.results]
        for top in tops:
            for folder, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(folder, name)
                    try:
                        info = os.lstat(path)
                    except OSError:
                        continue  # it was removed meanwhile, which the next look shows
                    found[path] = (info.st_size, info.st_mtime_ns)
        return found


def dump_stacks(processes: Processes, folder: str) -> tuple[list[str], int]:
    """Writes where the Python processes of this node are: py-spy into files, which are returned, or faulthandler into
    the logs of the processes, whose number is returned."""
    os.makedirs(folder, exist_ok=True)
    pids = [pid for pid in processes.others(but_services=True) if _name(pid).startswith("python")]
    paths = {pid: f"{folder}/{_process_of(processes, pid)}-{pid}.txt" for pid in pids}
    seen = _spy(paths)
    asked = [pid for pid in pids if pid not in seen and _abort(pid)]
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


def _abort(pid: int) -> bool:
    """With PYTHONFAULTHANDLER=1, which ranks have, the stacks go into the log of the process."""
    try:
        os.kill(pid, signal.SIGABRT)
        return True
    except (ProcessLookupError, PermissionError):
        return False


def _name(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def _process_of(processes: Processes, pid: int) -> str:
    try:
        session = os.getsid(pid)
    except ProcessLookupError:
        return "process"
    known = processes.running.get(session)
    return known.name if known else "process"
