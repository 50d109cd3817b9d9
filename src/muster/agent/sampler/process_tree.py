"""CPU and memory use of the processes of a node, by rank.

A process belongs to the rank that its parent belonged to when it was first seen, so an orphan stays with its rank. The files
/proc/PID/stat are kept open, which makes a reading three times cheaper, and never show another process that reuses the pid.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, Optional

from muster.agent.sampler.sample_writer import Sample

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_OPEN = 256  # files; those of further processes are opened for each reading


class Stat(NamedTuple):
    """The state of one process at one moment."""

    alive: bool  # False for a zombie
    parent: int
    session: int
    own: int  # CPU time, in ticks
    reaped: int  # CPU time of children that it has waited for
    pages: int  # of memory


class Process:
    """A process of the node, with its state at the last reading."""

    def __init__(self, pid: int, first: Stat) -> None:
        self.pid = pid
        self.file = -1  # opened once the process is known to be of this node
        self.parent = first.parent
        self.session = first.session
        self.rank = ""
        self.stat = first._replace(own=0, reaped=0)  # all its CPU time was used since the last reading


Change = tuple[Stat, Optional[Stat]]
"""The state of one process at the last reading, and now; None for one that has ended since."""


class ProcessTree:
    """All descendants of one process, without one branch: the sampler's own."""

    def __init__(self, root: int, left_out: int) -> None:
        self._root = root
        self._left_out = left_out
        self._names: Iterable[str] = ()
        self._processes: dict[int, Process] = {}
        self._ranks: dict[int, str] = {}
        self.new_pids: list[int] = []  # first seen at the last reading
        self._open = 0
        self._last: float | None = None

    def set_ranks(self, ranks: dict[str, int]) -> None:
        """Sets the ranks of this node, with the pids of their first processes."""
        self._ranks = {pid: rank for rank, pid in ranks.items()}
        for process in self._processes.values():
            process.rank = ""
        for process in self._processes.values():
            process.rank = self._rank(process)

    def pids(self, rank: str) -> list[int]:
        """The pids of a rank, the oldest first."""
        return [pid for pid, process in self._processes.items() if process.rank == rank]

    def read(self, moment: float) -> Sample:
        self._discover()
        everything: list[Change] = []
        ranks: dict[str, list[Change]] = {rank: [] for rank in self._ranks.values()}
        for process in list(self._processes.values()):
            now = _read(process.file) if process.file >= 0 else _read_once(process.pid)
            everything.append((process.stat, now))
            if process.rank in ranks:
                ranks[process.rank].append((process.stat, now))
            if now is None:
                self._forget(process)
            else:
                process.stat = now
        last, self._last = self._last, moment
        seconds = moment - last if last is not None else 0.0
        if seconds <= 0:
            return Sample()  # the first reading
        by_rank = {rank: _used(own, seconds) for rank, own in ranks.items() if any(now and now.alive for _, now in own)}
        return Sample({f"procs_{name}": value for name, value in _used(everything, seconds).items()}, by_rank)

    def close(self) -> None:
        for process in list(self._processes.values()):
            self._forget(process)

    def _discover(self) -> None:
        """Finds processes that have started since the last reading. Those of other nodes are examined only once."""
        names = set(os.listdir("/proc"))
        fresh = sorted(int(name) for name in names.difference(self._names) if name.isdigit())
        self._names = names
        others = [pid for pid in fresh if pid not in self._processes and pid not in (self._root, self._left_out)]
        candidates = {pid: Process(pid, first) for pid in others if (first := _read_once(pid))}
        self.new_pids = [pid for pid in candidates if self._belongs(pid, candidates)]
        for pid in self.new_pids:
            self._keep(candidates[pid])

    def _keep(self, process: Process) -> None:
        self._processes[process.pid] = process
        process.rank = self._rank(process)
        if self._open < MOST_OPEN:
            with suppress(OSError):  # it has ended, which the next reading notices
                process.file = os.open(f"/proc/{process.pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
                self._open += 1

    def _belongs(self, pid: int, candidates: dict[int, Process]) -> bool:
        seen = set()
        while pid in candidates and pid not in seen:
            seen.add(pid)
            pid = candidates[pid].parent
        return pid == self._root or pid in self._processes

    def _rank(self, process: Process) -> str:
        """The rank of a process by its ancestors, or by the session in which each rank is started."""
        seen = set()
        pid = process.pid
        while pid not in seen:
            seen.add(pid)
            if pid in self._ranks:
                return self._ranks[pid]
            above = self._processes.get(pid)
            if above is None:
                break
            if above is not process and above.rank:
                return above.rank
            pid = above.parent
        return self._ranks.get(process.session, process.rank)

    def _forget(self, process: Process) -> None:
        del self._processes[process.pid]
        if process.file >= 0:
            os.close(process.file)
            self._open -= 1


def _read_once(pid: int) -> Stat | None:
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return _read(file.fileno())
    return None


def _read(file: int) -> Stat | None:
    try:
        text = os.pread(file, 1024, 0)
    except OSError:  # it has ended
        return None
    words = text[text.rfind(b")") + 2 :].split(b" ", 22)  # the name may contain anything, also parentheses
    if len(words) < 22:
        return None
    user, system, of_children, system_of_children = map(int, words[11:15])
    return Stat(
        alive=words[0] not in (b"Z", b"X"),
        parent=int(words[1]),
        session=int(words[3]),
        own=user + system,
        reaped=of_children + system_of_children,
        pages=int(words[21]),
    )


def _used(changes: list[Change], seconds: float) -> dict[str, float]:
    """CPU in percent of one core, and memory in bytes, of some processes.

    Those that lived only between two readings count as well, with the time of all children that were waited for, less what
    was counted while they lived.
    """
    there = [(before, now) for before, now in changes if now is not None]
    reaped = sum(now.reaped - before.reaped for before, now in there)
    counted = sum(before.own + before.reaped for before, now in changes if now is None)
    ticks = sum(now.own - before.own for before, now in there) + max(0, reaped - counted)
    return {"cpu": round(100.0 * ticks / TICKS / seconds, 1), "mem": sum(now.pages for _, now in there) * PAGE}
