"""The processes of a node, each counted for the rank that it belongs to.

A process belongs where its parent did when it was first seen, so an orphan stays with its rank. Files of processes stay open,
which makes a reading three times cheaper; a closed process answers with an error, even when its id has a new owner.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_OPEN = 256  # files of processes; the others are opened for each reading


class Times(NamedTuple):
    """One process at one moment."""

    alive: bool  # false: it has ended, and its parent has not waited for it yet
    parent: int
    session: int
    own: int  # CPU time, in ticks
    reaped: int  # CPU time of children that have ended and that it has waited for
    pages: int  # of memory


class Member:
    """A process of the node, and what it had used at the last reading."""

    def __init__(self, pid: int, first: Times) -> None:
        self.pid = pid
        self.file = -1  # open from when it is known to belong here
        self.parent = first.parent
        self.session = first.session
        self.rank = ""
        self.times = first._replace(own=0, reaped=0)  # what it used so far was used since the last reading


class Use:
    """What the processes of one group used between two readings, in ticks and pages."""

    def __init__(self) -> None:
        self.alive = False
        self.ticks = 0
        self.pages = 0
        self._reaped = 0
        self._gone = 0

    def add(self, before: Times, now: Times) -> None:
        self.alive = self.alive or now.alive
        self.ticks += now.own - before.own
        self._reaped += now.reaped - before.reaped
        self.pages += now.pages

    def lose(self, last: Times) -> None:
        self._gone += last.own + last.reaped

    def total(self) -> int:
        """With what came and went unseen: all that parents have waited for, less what was counted while it lived."""
        return self.ticks + max(0, self._reaped - self._gone)


class Trees:
    """All descendants of one process, less one branch: the sampler's own."""

    def __init__(self, root: int, left_out: int) -> None:
        self._root = root
        self._left_out = left_out
        self._names: Iterable[str] = ()
        self._members: dict[int, Member] = {}
        self._ranks: dict[int, str] = {}
        self.newcomers: list[int] = []  # seen at the last reading for the first time
        self._open = 0
        self._last: float | None = None

    def tell(self, ranks: dict[str, int]) -> None:
        """The ranks of this node, with the ids of their first processes."""
        self._ranks = {pid: rank for rank, pid in ranks.items()}
        for member in self._members.values():
            member.rank = ""
        for member in self._members.values():
            member.rank = self._rank(member)

    def of(self, rank: str) -> list[int]:
        """The processes of a rank, the oldest first."""
        return [pid for pid, member in self._members.items() if member.rank == rank]

    def read(self, moment: float) -> dict[str, object]:
        self._discover()
        everything, ranks = Use(), {rank: Use() for rank in self._ranks.values()}
        for member in list(self._members.values()):
            uses = [everything, ranks[member.rank]] if member.rank in ranks else [everything]
            before, now = member.times, _read(member.file) if member.file >= 0 else _look(member.pid)
            if now is None:
                self._forget(member)
            for use in uses:
                use.lose(before) if now is None else use.add(before, now)
            if now is not None:
                member.times = now
        last, self._last = self._last, moment
        seconds = moment - last if last is not None else 0.0
        if seconds <= 0:
            return {}  # times without a beginning
        used = {rank: _used(use, seconds) for rank, use in ranks.items() if use.alive}
        found: dict[str, object] = {"procs_" + name: value for name, value in _used(everything, seconds).items()}
        return dict(found, ranks=used) if used else found

    def close(self) -> None:
        for member in list(self._members.values()):
            self._forget(member)

    def _discover(self) -> None:
        """Takes in processes that were not there at the last look. Foreign ones are looked at once."""
        names = set(os.listdir("/proc"))
        fresh = sorted(int(name) for name in names.difference(self._names) if name.isdigit())
        self._names = names
        strangers = {pid: Member(pid, first) for pid, first in ((pid, self._meet(pid)) for pid in fresh) if first}
        self.newcomers = [pid for pid in strangers if self._belongs(pid, strangers)]
        for pid in self.newcomers:
            self._keep(strangers[pid])

    def _meet(self, pid: int) -> Times | None:
        return None if pid in self._members or pid in (self._root, self._left_out) else _look(pid)

    def _keep(self, member: Member) -> None:
        self._members[member.pid] = member
        member.rank = self._rank(member)
        if self._open < MOST_OPEN:
            try:
                member.file = os.open(f"/proc/{member.pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
                self._open += 1
            except OSError:
                pass  # it has just ended, which the next reading shows

    def _belongs(self, pid: int, strangers: dict[int, Member]) -> bool:
        seen = set()
        while pid in strangers and pid not in seen:
            seen.add(pid)
            pid = strangers[pid].parent
        return pid == self._root or pid in self._members

    def _rank(self, member: Member) -> str:
        """By its line of parents, or by the session in which each rank is started."""
        seen = set()
        pid = member.pid
        while pid not in seen:
            seen.add(pid)
            if pid in self._ranks:
                return self._ranks[pid]
            above = self._members.get(pid)
            if above is None:
                break
            if above is not member and above.rank:
                return above.rank
            pid = above.parent
        return self._ranks.get(member.session, member.rank)

    def _forget(self, member: Member) -> None:
        del self._members[member.pid]
        if member.file >= 0:
            os.close(member.file)
            self._open -= 1


def _look(pid: int) -> Times | None:
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(file)
    finally:
        os.close(file)


def _read(file: int) -> Times | None:
    try:
        text = os.pread(file, 1024, 0)
    except OSError:  # it has ended
        return None
    words = text[text.rfind(b")") + 2 :].split(b" ", 22)  # a name may hold anything, brackets too
    if len(words) < 22:
        return None
    user, system, of_children, system_of_children = map(int, words[11:15])
    return Times(
        alive=words[0] not in (b"Z", b"X"),
        parent=int(words[1]),
        session=int(words[3]),
        own=user + system,
        reaped=of_children + system_of_children,
        pages=int(words[21]),
    )


def _used(use: Use, seconds: float) -> dict[str, float]:
    """CPU in percent of one core, and memory in bytes."""
    return {"cpu": round(100.0 * use.total() / TICKS / seconds, 1), "mem": use.pages * PAGE}
