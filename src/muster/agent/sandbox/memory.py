"""The memory of a node: a limit that the kernel keeps where it lets us, and its counters of who was killed for memory."""

from __future__ import annotations

import os
from contextlib import suppress

from muster.agent.node.processes import Processes
from muster.linux.proc import read_text, search, write


class Memory:
    """The limit of one node and the kernel's counters about it."""

    def __init__(self, name: str, limit: int | None) -> None:
        self.limit = limit
        self._group = _make_group(name, limit) if limit else None
        self._killed = self._count()

    @property
    def kept_by_kernel(self) -> bool:
        return self._group is not None

    def ran_out(self) -> bool:
        """True if the kernel killed a process for memory since the node started."""
        return self._count() > self._killed

    def too_much(self, processes: Processes) -> int | None:
        """The memory that the node uses, when that is over a limit that the kernel does not keep."""
        if self.limit is None or self.kept_by_kernel:
            return None
        used = sum(_resident(pid) for pid in processes.others())
        return used if used > self.limit else None

    def _count(self) -> int:
        """Processes that were killed for memory: of this node, or of the group that it shares with whoever started it."""
        groups = [self._group] if self._group is not None else [parent for parent, _ in _parents()[:1]]
        files = ("memory.events.local", "memory.events", "memory.oom_control")
        paths = [f"{group}/{file}" for group in groups for file in files]
        counts = (search(path, r"^oom_kill (\d+)") for path in paths if os.path.exists(path))
        return int(next(counts, None) or 0)


def group(run_id: str, node: int) -> str:
    """The name of a node's control group."""
    return f"muster-{run_id}-{node}"


def leave_group(name: str) -> None:
    """Moves this process back to its former control group and deletes that of the node: on a real machine nothing else does."""
    for own, _ in _parents():
        if os.path.basename(own) == name:
            write(os.path.dirname(own) + "/cgroup.procs", "0")
            os.rmdir(own)


def remove_group(name: str) -> None:
    """Deletes the control group of a node, once it is empty."""
    for parent, _ in _parents():
        with suppress(OSError):
            os.rmdir(f"{parent}/{name}")


def _make_group(name: str, limit: int, join: bool = True) -> str | None:
    """A control group with a memory limit, joined by this process, where that is allowed."""
    for parent, files in _parents():
        path = f"{parent}/{name}"
        try:
            os.mkdir(path)
        except OSError:
            continue
        try:
            write(f"{path}/{files[0]}", str(limit))
            for other in files[1:]:
                if os.path.exists(f"{path}/{other}"):
                    write(f"{path}/{other}", str(limit) if other.startswith("memory.memsw") else "0")
            if join:
                write(path + "/cgroup.procs", "0")
            return path
        except OSError:
            os.rmdir(path)
    return None


def _parents() -> list[tuple[str, tuple[str, ...]]]:
    """Control groups in which one can be made: beside our own, in version 2 or 1 of the kernel's interface."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for line in read_text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            own = "/sys/fs/cgroup" + path.rstrip("/")
            for parent in (own, os.path.dirname(own)):  # a group with processes in it cannot have limited children
                if parent.startswith("/sys/fs/cgroup"):
                    found.append((parent, ("memory.max", "memory.swap.max")))
        elif "memory" in controllers.split(","):
            own = "/sys/fs/cgroup/memory" + path.rstrip("/")
            found.append((own, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")))
    return found


def _resident(pid: int) -> int:
    numbers = read_text(f"/proc/{pid}/statm").split()
    return (int(numbers[1]) - int(numbers[2])) * os.sysconf("SC_PAGE_SIZE") if numbers else 0  # without shared pages


def can_limit() -> bool:
    """True if the kernel would keep a limit here; found out by making an empty group."""
    name = f"muster-probe-{os.getpid()}"
    made = _make_group(name, 1 << 40, join=False)
    remove_group(name)
    return made is not None
