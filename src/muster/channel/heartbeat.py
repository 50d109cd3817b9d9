"""Signs of life of nodes: a supervisor learns from them of a machine that died, minutes before its batch system does."""

from __future__ import annotations

import os
import re
import threading
import time

from muster.records.files import is_there, open_anew
from muster.records.layout import NODE_FILES, AttemptDir
from muster.records.untrusted import read_if_regular

BEAT = re.compile(r"[0-9]+\.[0-9]+")  # seconds since 1970
PAUSE = 2.0
SILENCE_LIMIT = 60.0  # for a machine whose file system hangs for a while
ANSWER_LIMIT = 8.0  # once the gang is stopped: who is alive says so


def send_heartbeats(path: str) -> None:
    """Writes the time to a file every so often, in a thread of its own."""
    threading.Thread(target=_send, args=(path,), daemon=True).start()


def _send(path: str) -> None:
    while True:
        try:
            with os.fdopen(open_anew(path), "w", encoding="ascii") as file:
                file.write(f"{time.time():.3f}")
        except OSError:
            pass  # a full disk or a file system that is away: the next one may come through
        time.sleep(PAUSE)


class Heartbeats:
    """The heartbeats of the nodes of an attempt.

    Time is counted in looks: while this process itself could not look, no node is silent.
    """

    def __init__(self, attempt: AttemptDir, count: int) -> None:
        self._attempt = attempt
        self._last: dict[int, str] = {}
        self._silent = dict.fromkeys(range(count), 0)  # looks since the last heartbeat, by node
        self._next = 0.0

    def look(self) -> None:
        """Looks for new heartbeats, when it is time to."""
        if time.monotonic() < self._next:
            return
        for node in self._silent:
            beat = _read(self._attempt.node(node).beat)
            self._silent[node] = 0 if beat and beat != self._last.get(node) else self._silent[node] + 1
            self._last[node] = beat or self._last.get(node, "")
        self._next = time.monotonic() + PAUSE

    def silent(self, stopping: bool) -> set[int]:
        """Nodes without a heartbeat for too long. One that never sent any may still start, until the gang is stopped."""
        looks = (ANSWER_LIMIT if stopping else SILENCE_LIMIT) / PAUSE
        quiet = [node for node, count in self._silent.items() if count > looks and (stopping or self._last.get(node))]
        for node in [node for node in quiet if is_there(self._attempt.node(node).exit)]:
            del self._silent[node]  # it has ended in order
            quiet.remove(node)
        return set(quiet)


def last(attempt: AttemptDir) -> float | None:
    """The time of the last heartbeat of an attempt, by the clock of the node that sent it."""
    beats = [_read(attempt.node(node).beat) for node in attempt.node_indexes()]
    return max((float(beat) for beat in beats if BEAT.fullmatch(beat)), default=None)


def _read(path: str) -> str:
    """The last heartbeat of a node; empty while it writes. Opening asks the server of a network file system."""
    return read_if_regular(path, NODE_FILES["beat"]).decode("ascii", "replace")
