"""The processes of a node: started, reaped, signalled and, in the end, all gone."""

from __future__ import annotations

import os
import re
import select
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from muster.dataclass import dataclass
from muster.linux import syscalls
from muster.linux.proc import alive, children, descendants, pids, read, read_at, write
from muster.linux.signals import reap_children, send, send_to_group
from muster.linux.spawn import spawn
from muster.records.files import open_log

LOOKS = 3  # a process that forks and leaves while it is looked for can be missed, but hardly so often


@dataclass(frozen=False)
class Running:
    """One process that the agent started."""

    name: str
    pid: int
    rank: int
    started: float
    seen: int = 0  # its id as the machine sees it
    ended: float | None = None
    code: int | None = None
    signal: int | None = None
    stopped: bool = False  # it ended after the gang was stopped
    service: bool = False  # it works for the agent: it is not waited for, and its end is no failure by itself

    @property
    def failed(self) -> bool:
        return self.ended is not None and not self.stopped and self.code != 0

    def end(self, status: int, stopping: bool) -> None:
        """Notes that it ended, with the status that `waitpid` gave."""
        self.ended, self.stopped = time.time(), stopping
        code = os.waitstatus_to_exitcode(status)
        self.code, self.signal = (code, None) if code >= 0 else (None, -code)

    def to_json(self) -> dict[str, Any]:
        return {
            "process": self.name,
            "rank": self.rank,
            "pid": self.seen or self.pid,
            "started": self.started,
            "ended": self.ended,
            "code": self.code,
            "signal": self.signal,
            "stopped": self.stopped,
        }


class Processes:
    """All processes of a node. `contained`: the node is a namespace, of which this is the first process."""

    def __init__(self, contained: bool) -> None:
        self.contained = contained
        self.running: dict[int, Running] = {}
        self.all: list[Running] = []
        self._ends = select.epoll()
        self._descriptors: dict[int, int] = {}  # by process id
        self._programs: dict[tuple[str, str | None], str | None] = {}  # where each is, by its name and PATH

    def start(
        self, name: str, argv: Sequence[str], env: dict[str, str], cwd: str, log: str, rank: int = -1, keep: Sequence[int] = ()
    ) -> Running:
        """Starts a process in a session of its own, with both its outputs going straight into its log."""
        output = open_log(log)
        before = None if self.contained else syscalls.die_with_parent
        try:
            pid = spawn(argv, env, output, keep, cwd, before, self._program(argv[0], env))
        except OSError as error:
            os.write(output, (f"muster: {error}\n").encode())
            raise
        finally:
            os.close(output)
        with suppress(OSError):  # the kernel kills it when memory runs out, and not the agent, which has to report that
            write(f"/proc/{pid}/oom_score_adj", "500")
        process = Running(name, pid, rank, time.time())
        self.running[pid] = process
        self.all.append(process)
        self._watch(pid)
        return process

    def _program(self, name: str, env: Mapping[str, str]) -> str | None:
        """Searches the PATH once for all ranks. None leaves the search to each process, as where its directory matters."""
        key = (name, env.get("PATH"))
        if key not in self._programs or not os.access(self._programs[key] or "/", os.X_OK):
            self._programs[key] = _on_path(name, env)
        return self._programs[key]

    def _watch(self, pid: int) -> None:
        """Has the kernel note when a process ends: `waitpid` gives several in the order of their start."""
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            return  # a kernel or a Python without it, or too many descriptors
        self._descriptors[pid] = descriptor
        self._ends.register(descriptor, select.EPOLLIN)

    def _forget(self, pid: int) -> None:
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None:
            self._ends.unregister(descriptor)
            os.close(descriptor)

    def reap(self, stopping: bool) -> list[Running]:
        """Collects what ended, orphans included, and returns those that the agent had started, in the order of their ends."""
        pids = {descriptor: pid for pid, descriptor in self._descriptors.items()}
        watched = [os.waitpid(pids[descriptor], 0) for descriptor, _ in self._ends.poll(0)]
        ended: list[Running] = []
        for pid, status in [*watched, *reap_children()]:
            self._forget(pid)
            process = self.running.pop(pid, None)
            if process is not None:
                process.end(status, stopping)
                ended.append(process)
        return ended

    def others(self, but_services: bool = False) -> list[int]:
        """Every process of this node but the agent, zombies not counted."""
        left_out = {pid for pid, process in self.running.items() if process.service} if but_services else set()
        if self.contained:
            return [pid for pid in pids() if pid != 1 and pid not in left_out and alive(pid)]
        return [pid for pid in descendants(os.getpid()) if pid not in left_out]

    def signal_all(self, number: int) -> None:
        """Sends a signal to every process group of this node."""
        for process in list(self.running.values()):
            if not process.service:  # ranks may need it until they end
                send_to_group(process.pid, number)
        groups = {_group(pid) for pid in self.others()} - set(self.running) - {None, os.getpgrp()}
        for group in groups:
            send_to_group(group or 0, number)

    def signal_launched(self, number: int) -> bool:
        """Sends a signal to the ranks that a launcher started here, and to what they started; false when there are none."""
        mark = b"MUSTER_LAUNCHED=1"
        found = [pid for pid in self.others() if mark in read(f"/proc/{pid}/environ").split(b"\0")]
        for pid in found:
            send(pid, number)
        return bool(found)

    def kill_all(self) -> list[Running]:
        """Kills until nothing is left; returns those that the agent had started."""
        ended: list[Running] = []
        empty = 0
        while empty < LOOKS:
            # those started here until they are reaped: one whose first thread has ended looks dead while others of its go on
            left = [pid for pid in {*self.others(), *self.running} if send(pid)]
            empty = 0 if left else empty + 1
            ended += self.reap(stopping=True)
            if left:
                time.sleep(0.001)
        return ended

    def note_seen(self, seen: Mapping[int, int]) -> None:
        """Notes the ids of the processes as the machine sees them."""
        for process in self.all:
            process.seen = seen.get(process.pid, process.seen)


def _on_path(name: str, env: Mapping[str, str]) -> str | None:
    folders = os.get_exec_path(env)
    if "/" in name or not all(map(os.path.isabs, folders)):
        return None
    return shutil.which(name, path=":".join(folders))


def why_not_started(program: str, env: dict[str, str], error: Exception) -> str:
    """Why a program could not be started, in words."""
    if "/" not in program and not shutil.which(program, path=env.get("PATH")):
        return f"`{program}` was not found on its PATH"
    if isinstance(error, FileNotFoundError):
        return f"`{program}` does not exist, or the interpreter that its first line names"
    return "`{}`: {}".format(program, getattr(error, "strerror", None) or error)


def seen_from_outside(proc: int, agent: int) -> dict[int, int]:
    """The children of an agent by the ids that they have in its namespace, through a descriptor of the machine's own /proc."""
    found = {}
    for pid in children(agent, proc):
        with suppress(OSError):  # it ended meanwhile
            inner = re.search(rb"^NSpid:.*\t(\d+)$", read_at(f"{pid}/status", proc), re.MULTILINE)
            found.update({int(inner.group(1)): pid} if inner else {})
    return found


def _group(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None
