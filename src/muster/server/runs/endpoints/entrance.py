"""Who may enter endpoints: tickets that a browser changes into a cookie of the endpoint's own origin, and what becomes of them.

All of it is in the memory of the server: when it ends, people open their endpoints again from the page of the run.
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from muster.launch.connections import NotReady, Target, target
from muster.launch.names import RunNotFound
from muster.launch.run import Run
from muster.server.core.access import Owned, Principal, demand
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.rows import NO_RUN
from muster.tester.errors import Denied

TICKET = 30.0  # seconds that a ticket is good for
ENTRY = 12 * 3600.0  # seconds that one entry is good for
CHECKED = 2.0  # seconds for which the answer to a check holds
MOST_TICKETS = 10_000
MOST_ENTRIES = 100  # of one user; the oldest ends
MOST_AT_ONCE = 64  # connections of one entry
MOST_OF_ALL = 1000  # connections of all entries
BUSY = "this endpoint has too many connections at once; close some of its pages"
ENDED = "the run has ended"


@dataclass(eq=False)
class Entry:
    """The right of a user to reach one endpoint of one run, from its own origin alone."""

    user: str
    run: str
    name: str
    host: str
    again: Callable[[], Principal]  # raises Denied where the credential has ended that the ticket was given for
    until: float
    live: set[Callable[[], object]] = field(default_factory=set)  # each ends a connection
    checked: float = 0.0
    target: Target | None = None


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


class Entrance:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._lock = threading.Lock()
        self._tickets: dict[bytes, tuple[float, Entry]] = {}
        self._entries: dict[bytes, Entry] = {}

    def issue(self, user: str, run: str, name: str, host: str, again: Callable[[], Principal]) -> str:
        """Makes a ticket: for one use, by one browser, within seconds."""
        secret, now = secrets.token_urlsafe(32), time.monotonic()
        with self._lock:
            self._tickets = {key: found for key, found in self._tickets.items() if found[0] > now}
            if len(self._tickets) >= MOST_TICKETS:
                raise Denied(503, "too many endpoints are being opened; try again in a moment")
            self._tickets[_hashed(secret)] = (now + TICKET, Entry(user, run, name, host, again, now + ENTRY))
        return secret

    def redeem(self, ticket: str, host: str) -> str | None:
        """Changes a ticket into the secret of an entry; None for one that is not good here. It is spent in any case."""
        with self._lock:
            until, entry = self._tickets.pop(_hashed(ticket), (0.0, None))
            if entry is None or until < time.monotonic() or entry.host != host:
                return None
            secret = secrets.token_urlsafe(32)
            mine = [key for key, found in self._entries.items() if found.user == entry.user]
            for key in mine[: max(0, len(mine) - MOST_ENTRIES + 1)]:
                self._end(key)
            self._entries[_hashed(secret)] = entry
        return secret

    def find(self, secret: str, host: str) -> Entry | None:
        """The entry of a cookie, on the host that it was made for."""
        with self._lock:
            entry = self._entries.get(_hashed(secret))
            if entry is None or entry.host != host:
                return None
            if entry.until < time.monotonic():
                self._end(_hashed(secret))
                return None
            return entry

    def check(self, entry: Entry) -> Target:
        """Where the endpoint is, if the user may still enter it. Raises Denied and NotReady."""
        if entry.target is not None and time.monotonic() - entry.checked < CHECKED:
            return entry.target
        entry.target = None
        principal = entry.again()
        with self._platform.database.read() as connection:
            row = rows.get(connection, entry.run)
        demand(principal, "runs.enter", Owned(row.user, row.project), NO_RUN)
        if row.stage == rows.ENDED or row.removed is not None:
            raise Denied(410, ENDED)
        try:
            found = target(Run(self._platform.run_dir(row)), entry.name)
        except RunNotFound as error:
            raise NotReady(str(error)) from None
        entry.target, entry.checked = found, time.monotonic()
        return found

    @contextmanager
    def connected(self, entry: Entry, end: Callable[[], object]) -> Iterator[None]:
        """Counts a connection, which `end` ends, where the user may not enter any more. Raises Denied for one too many."""
        with self._lock:
            if len(entry.live) >= MOST_AT_ONCE or sum(len(found.live) for found in self._entries.values()) >= MOST_OF_ALL:
                raise Denied(503, BUSY)
            entry.live.add(end)
        try:
            yield
        finally:
            entry.live.discard(end)

    def recheck(self) -> list[Callable[[], object]]:
        """Ends entries whose users may not enter any more; returns what ends their connections, for the loop of the server."""
        ending: list[Callable[[], object]] = []
        with self._lock:
            found = [(key, entry) for key, entry in self._entries.items() if entry.live]
        for key, entry in found:
            try:
                if entry.until < time.monotonic():
                    raise Denied(403, ENDED)
                self.check(entry)
            except NotReady:
                pass  # it may come back
            except Exception:  # also where the database does not answer: nobody stays without having been asked about
                ending += list(entry.live)
                with self._lock:
                    self._end(key)
        return ending

    def _end(self, key: bytes) -> None:
        self._entries.pop(key, None)
