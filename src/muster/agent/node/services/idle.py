"""Whether people use an environment: a shell beside it, a login, a kernel that computes, a terminal of Jupyter's."""

from __future__ import annotations

import os
import time
from typing import Any

from muster.agent.node.processes import Processes
from muster.linux.proc import alive, children, descendants, pids, read
from muster.records.untrusted import parse_json

ANSWER = 1.0  # seconds in which Jupyter has to answer
MOST = 1 << 20


class Idle:
    """`port` and `token` are those of Jupyter, if there is one."""

    def __init__(self, processes: Processes, limit: float, port: int | None, token: str) -> None:
        self.limit = limit
        self._processes = processes
        self._port = port
        self._token = token
        self._used = time.monotonic()
        self._seen: Any = None  # what Jupyter said of its kernels and terminals

    def is_over(self) -> bool:
        """True if nobody has used the environment for the whole limit."""
        if self._others() or self._logins() or (self._port is not None and self._jupyter_works()):
            self._used = time.monotonic()
        return time.monotonic() - self._used >= self.limit

    def _logins(self) -> bool:
        return any(children(process.pid) for process in self._processes.running.values() if process.name == "sshd")

    def _others(self) -> bool:
        """True if there are processes that neither the agent nor what it started has started, such as those of `exec`."""
        if self._processes.contained:
            own = {os.getpid(), *(one for pid in self._processes.running for one in (pid, *descendants(pid)))}
            return any(pid not in own and alive(pid) for pid in pids())
        mark = {b"MUSTER_RUN=" + os.fsencode(name) for name in self._runs()}
        own = {os.getpid(), *descendants(os.getpid())}
        return any(mark & {*read(f"/proc/{pid}/environ").split(b"\0")} for pid in pids() if pid not in own)

    def _runs(self) -> set[str]:
        """The id of the run, as its ranks have it."""
        ranks = [pid for pid, process in self._processes.running.items() if process.rank >= 0]
        variables = (entry for pid in ranks for entry in read(f"/proc/{pid}/environ").split(b"\0"))
        return {os.fsdecode(entry[len(b"MUSTER_RUN=") :]) for entry in variables if entry.startswith(b"MUSTER_RUN=")}

    def _jupyter_works(self) -> bool:
        """True if a kernel computes, or a kernel or terminal was used since the last look. Pages that are only open poll."""
        from http.client import HTTPException  # here, because it takes long to import, and few jobs have Jupyter

        try:
            found = [self._asked("kernels"), self._asked("terminals")]
        except (OSError, ValueError, HTTPException):
            return False
        entries = [entry for part in found if isinstance(part, list) for entry in part if isinstance(entry, dict)]
        seen = sorted(str((entry.get("id"), entry.get("name"), entry.get("last_activity"))) for entry in entries)
        before, self._seen = self._seen, seen
        return seen != (before or []) or any(entry.get("execution_state") == "busy" for entry in entries)

    def _asked(self, what: str) -> Any:
        from http.client import HTTPConnection

        connection = HTTPConnection("127.0.0.1", self._port, timeout=ANSWER)
        try:
            headers = {"Authorization": f"token {self._token}"}
            connection.request("GET", f"/api/{what}?no_track_activity=1", headers=headers)
            return parse_json(connection.getresponse().read(MOST))
        finally:
            connection.close()
