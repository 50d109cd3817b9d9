"""Engines whose supervisor is a process of this machine: submitting it, its status, and its end. No daemon, no root."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.engines.base import Engine, Request
from muster.engines.local import early
from muster.linux import handles, keys, proc
from muster.linux.handles import handle as handle_of
from muster.linux.held_signals import held
from muster.linux.spawn import spawn
from muster.records.status import Status

_HANDLE = re.compile(r"[0-9]{1,9}:[0-9]+:[^:]*:[^:]*:")
AGENT = "muster-node-"  # how the names of agents begin
END_IT = "`muster stop --now` ends the run"


class OwnSupervisor(Engine):
    """The part that these engines have in common."""

    lasting = False
    continues = True

    def submit(self, request: Request, follower: int | None = None, kept: Sequence[int] = ()) -> str:
        """Submits; the supervisor has the descriptors `kept`, too, under numbers that its command line names."""
        environment, found = keys.apart(request.environment)
        keys_file = keys.put_away(found)
        passed = [keys_file] if follower is None else [keys_file, follower]
        with open(request.log, "ab") as log, os.fdopen(keys_file, "rb"):
            os.fchmod(log.fileno(), 0o600)
            pid = None if kept else early.hand_over(request.argv, environment, [log.fileno(), *passed])
            pid = pid or _start(request, {**environment, keys.VARIABLE: str(keys_file)}, log.fileno(), passed, kept)
        return handle_of(pid) or f"{pid}:0:{handles.place()}"

    def find(self, run_dir: str) -> str | None:
        # Agents are forked from the supervisor and share its command line: it is the one without such a parent.
        wanted = os.fsencode(f"supervise\0{run_dir}\0")
        found = {pid for pid in proc.pids() if wanted in proc.command_line(pid) and proc.users(pid) <= _owners(run_dir)}
        return next((handle_of(pid) for pid in found if (stat := proc.stat(pid)) and stat.parent not in found), None)

    def status(self, handles: Iterable[str]) -> dict[str, Status]:
        return {handle: _status(handle) for handle in handles}

    def cancel(self, handle: str, queued_only: bool = False) -> None:
        if queued_only or not _HANDLE.match(handle):  # a run starts at once here
            return
        pid = int(handle.split(":")[0])
        for number, limit in ((signal.SIGCONT, 0.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
            if handle_of(pid) == handle:
                os.kill(pid, number)
            deadline = time.monotonic() + limit
            while _status(handle).alive and time.monotonic() < deadline:
                time.sleep(0.02)


def _owners(run_dir: str) -> set[int]:
    """The users whose process a supervisor can be; a job of another account may call its own as it likes."""
    try:
        return {0, os.stat(run_dir).st_uid}
    except FileNotFoundError:
        return {0, os.getuid()}


def _start(request: Request, environment: Mapping[str, str], log: int, passed: Sequence[int], kept: Sequence[int]) -> int:
    """Starts a supervisor; `passed` are the descriptors of its keys and of its follower, if it has one."""
    argv = [*request.argv, *(word for number in passed[1:] for word in ("--command", str(number)))]
    with held():
        return spawn(argv, environment, log, [*passed, *kept], request.cwd)  # it outlives this process, or `status` reaps it


def _status(handle: str) -> Status:
    if not _HANDLE.match(handle):
        return Status(False, "what its record says of its supervisor is damaged")
    pid, _, boot, space, host = handle.split(":", 4)
    if host != os.uname().nodename:
        return Status(True, f"it runs on {host}, where it can be looked after")
    if boot != handles.boot_id():
        return Status(False, "the machine was restarted while it ran")
    if space != handles.pid_namespace():
        return Status(True, "it runs outside of this namespace, where it can be looked after")
    if handle_of(int(pid)) != handle or not proc.alive(int(pid)):
        _reap(int(pid))
        return Status(False, f"its supervisor (process {pid}) was killed")
    return Status(True, halted=_halted(int(pid)))


def _halted(supervisor: int) -> str:
    """Which process of a run's supervisor and agents is stopped or frozen, and what to do about it; empty for none."""
    if still := proc.stopped(supervisor) or proc.frozen(supervisor):
        who = f"its supervisor (process {supervisor})"
        what = "the run does not end, neither at its time limit nor by `muster stop`"
        return f"{who} is {still.how}, and {what}; {still.remedy} lets it go on, {END_IT}"
    for pid in _agents(supervisor):
        if still := proc.stopped(pid):
            who = f"the agent of node {proc.name(pid).rpartition('-')[2]} (process {pid})"
            what = "nobody looks after the ranks of its node"
            return f"{who} is {still.how}, and {what}; {still.remedy} lets it go on, {END_IT}"
    return ""


def _agents(supervisor: int) -> Iterator[int]:
    """The agents of a run; one that is the first process of a namespace has its like outside as its parent."""
    for pid in proc.children(supervisor):
        yield from (inner for inner in proc.children(pid) if proc.name(inner).startswith(AGENT))
        if proc.name(pid).startswith(AGENT):
            yield pid


def _reap(pid: int) -> None:
    """Reaps a supervisor that this process started."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
