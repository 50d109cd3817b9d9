"""Signs of life of machines: a supervisor learns from them of one that died, minutes before its batch system does."""

from __future__ import annotations

import os
import threading
import time

from muster.metrics import numbers
from muster.records.files import is_there, open_anew
from muster.records.layout import AttemptDir
from muster.records.untrusted import read_regular

PAUSE = 2.0
LONGEST = 64  # bytes of a sign of life
SILENCE_LIMIT = 60.0  # for a machine whose file system hangs for a while
ANSWER_LIMIT = 8.0  # once the gang is stopped: who is alive says so


def go_on(path: str) -> None:
    """Shows from now on that this machine is alive, whatever its agent is busy with."""
    threading.Thread(target=_beat, args=(path,), daemon=True).start()


def _beat(path: str) -> None:
    while True:
        try:
            with os.fdopen(open_anew(path), "w", encoding="ascii") as file:
                file.write(f"{time.time():.3f}")
        except OSError:
            pass  # a full disk or a file system that is away: the next one may come through
        time.sleep(PAUSE)


class Beats:
    """What is heard of the nodes of an attempt.

    Time is counted in looks: while this process itself could not look, nobody is silent.
    """

    def __init__(self, attempt: AttemptDir, count: int) -> None:
        self._attempt = attempt
        self._heard: dict[int, str] = {}
        self._silent = dict.fromkeys(range(count), 0)  # looks since something new was heard, by node
        self._next = 0.0

    def listen(self) -> None:
        """Looks for something new, when it is time to."""
        if time.monotonic() < self._next:
            return
        for node in self._silent:
            said = _read(self._attempt.node(node).beat)
            self._silent[node] = 0 if said and said != self._heard.get(node) else self._silent[node] + 1
            self._heard[node] = said or self._heard.get(node, "")
        self._next = time.monotonic() + PAUSE

    def silent(self, stopping: bool) -> set[int]:
        """The nodes that should have been heard of. One that never was may still be on its way, until the gang is stopped."""
        looks = (ANSWER_LIMIT if stopping else SILENCE_LIMIT) / PAUSE
        quiet = [node for node, count in self._silent.items() if count > looks and (stopping or self._heard.get(node))]
        for node in [node for node in quiet if is_there(self._attempt.node(node).exit)]:
            del self._silent[node]  # it has ended in order
            quiet.remove(node)
        return set(quiet)


def last(attempt: AttemptDir) -> float | None:
    """When something was heard of an attempt for the last time, by the clock of the machine that said it."""
    said = [numbers.read(_read(attempt.node(node).beat)) for node in attempt.node_indexes()]
    return max((moment for moment in said if moment is not None), default=None)


def _read(path: str) -> str:
    """What a node said last; nothing while it writes. Opening asks the server of a network file system."""
    try:
        return read_regular(path, LONGEST).decode("ascii", "replace")
    except OSError:
        return ""
