"""The record of an attempt as it lies in the store, read in order into the directory of the run.

Whoever can write to the store can write into it: names, sizes and messages are checked, and what may not be there ends it.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from typing import Any

from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame, Parser
from muster.channel.stream.mirror import Mirror
from muster.channel.stream.names import is_log
from muster.dataclass import dataclass
from muster.engines.modelarts.node.inside import record
from muster.engines.modelarts.node.journal import Journal, Log
from muster.engines.modelarts.node.records import NodeRecords
from muster.job import Job
from muster.plan import World
from muster.records.files import write_json
from muster.records.layout import AttemptDir
from muster.records.run_view import Stop
from muster.records.untrusted import number
from muster.storage import Storage
from muster.storage.errors import NotFound

MOST = 2 * record.PIECE + (64 << 20)  # bytes of a file: one message may come behind all that fits
AT_ONCE = 8  # files that are taken before anything else is looked at
NAMED = 5  # files that have no place here
LONGEST = 1000  # letters of a sentence of it
HELD_BACK = ("done", "failed", "stop-request")  # topics of which a stop would follow, which ends the job in the service


@dataclass(frozen=True)
class End:
    """How the run ended in the job."""

    stop: Stop | None
    failures: tuple[int, ...]  # nodes, in the order in which their failures were learned of
    lost: tuple[tuple[int, str], ...]
    cut: str
    reason: str
    clocks: tuple[tuple[int, float], ...] = ()  # by how much those of nodes are ahead of the first worker's

    @classmethod
    def read(cls, data: dict[str, Any], count: int) -> End:
        stop = data.get("stop")
        failures = _list(data, "failures")
        lost, ahead = ([one for one in _list(data, name) if _is_pair(one, count)] for name in ("lost", "clocks"))
        return cls(
            Stop.from_json(stop) if isinstance(stop, dict) and stop else None,
            tuple(dict.fromkeys(node for node in failures if _is_node(node, count))),
            tuple((node, str(reason)[:LONGEST]) for node, reason in lost),
            str(data.get("cut") or "")[:LONGEST],
            str(data.get("reason") or "")[:LONGEST],
            tuple((node, found) for node, seconds in ahead if (found := number(seconds)) is not None),
        )


class StoredRecord:
    """`taken` files were taken before, of which `logs` go on; `note` is told where another process can go on."""

    def __init__(
        self,
        attempt: AttemptDir,
        count: int,
        url: str,
        taken: int,
        logs: list[Log],
        note: Callable[[int, list[Log]], None],
        show: Callable[[int, str], None],
    ) -> None:
        self.end: End | None = None
        self.broken = ""  # why it is not read any further
        self.begun = taken > 0
        self.more = False  # whether there may be more at once
        self._attempt, self._count, self._url = attempt, count, url.rstrip("/")
        self._note, self._show = note, show
        self._place = (taken, logs)
        self._mirrors: dict[int, Mirror] = {}
        self._refused: list[str] = []
        self._rewind()

    @property
    def over(self) -> bool:
        """True if nothing more of it can be taken."""
        return self.end is not None or bool(self.broken)

    def take(self, storage: Storage) -> bool:
        """Takes what is new, so much at a time; true if something was. Raises StorageError, and OSError for a full disk."""
        count, self.more = 0, False
        while not self.over and count < AT_ONCE and (body := self._next(storage)) is not None:
            self.begun = True
            count += 1
            try:
                self._feed(body)
            except OSError:
                self._rewind()
                raise
            except Exception as error:  # nothing in it can be relied on
                self.broken = f"its record cannot be read: {str(error)[:LONGEST] or type(error).__name__}"
                self.close()
                break
            self._taken += 1
            self._keep_place()
        if count and not self.broken:
            self._note(*self._place)
        self.more = count == AT_ONCE
        return count > 0

    def lacking(self) -> str:
        """What of the run is not in the run directory; empty where all is."""
        if self.broken or self.end is None:
            return f"{self.broken or 'its record has no end'}; what its ranks wrote may be missing (it lies at {self._url})"
        return f"{'; '.join(self._refused[:NAMED])} (they lie at {self._url})" if self._refused else ""

    def close(self) -> None:
        for mirror in self._mirrors.values():
            mirror.close()
        self._mirrors = {}

    def _rewind(self) -> None:
        """Goes on from the last place that was kept: logs as long as they were there, and nothing half written."""
        self.close()
        self._opened: dict[tuple[int, int], tuple[str, int]] = {}  # files that go on, by node and number: name and size
        self._taken, logs = self._place
        try:
            for node, number, name, size in logs:
                self._node = node
                opened = frames.with_object(frames.OPEN, {"number": number, "name": name, "offset": size})
                self._feed(opened)
        except Broken:  # a log is not there any more
            self.close()
            self._place = (0, [])
            self._opened, self._taken = {}, 0
        self._node = -1

    def _keep_place(self) -> None:
        """Notes this place, unless a file that is sent whole is half there."""
        if all(is_log(name) for name, _ in self._opened.values()):
            self._place = (self._taken, [(node, number, *known) for (node, number), known in self._opened.items()])

    def _next(self, storage: Storage) -> bytes | None:
        """The frames of the next file; None as long as it is not there as a whole."""
        url = f"{self._url}/{record.name(self._taken + 1)}"
        try:
            found = storage.stat(url)
            if found is None or found.is_dir:
                return None
            if found.size > MOST:
                self.broken = f"its record cannot be read: a part of it has {found.size} bytes"
                return None
            return record.unpacked(self._taken + 1, storage.read(url, 0, MOST))
        except NotFound:
            return None

    def _feed(self, body: bytes) -> None:
        parser = Parser()
        for frame in parser.feed(body):
            if self.end is not None:
                raise Broken("frames behind its end")
            if frame.kind == frames.MESSAGE:
                self._hear(frame.object)
            elif self._node < 0:
                raise Broken("files of no node")
            else:
                self._mirror(self._node).take(frame)
                self._follow(frame)
        if not parser.empty:
            raise Broken("a frame that is cut")

    def _hear(self, message: dict[str, Any]) -> None:
        say = message.get("say")
        if say == "node":
            if not _is_node(message.get("node"), self._count):
                raise Broken("a node that the run does not have")
            self._node = message["node"]
        elif say == "world":
            write_json(self._attempt.world, World.from_json(message["world"]).to_json())
        elif say == "end":
            self.end = End.read(message, self._count)
        else:
            raise Broken("an unknown message")

    def _mirror(self, node: int) -> Mirror:
        if node not in self._mirrors:
            self._mirrors[node] = Mirror(
                self._attempt.node(node).path, partial(self._published, node), partial(self._refuse, node)
            )
        return self._mirrors[node]

    def _published(self, node: int, topic: str) -> None:
        if topic not in HELD_BACK:
            self._show(node, topic)

    def _refuse(self, node: int, name: str, reason: str) -> None:
        self._refused.append(f"{name} of node {node} is not here: {reason}")

    def _follow(self, frame: Frame) -> None:
        """Keeps account of the files that go on."""
        if frame.kind == frames.OPEN:
            opened = frame.object
            known = [key for key, (name, _) in self._opened.items() if key[0] == self._node and name == opened["name"]]
            for key in known:  # it begins anew
                del self._opened[key]
            self._opened[self._node, opened["number"]] = (opened["name"], opened.get("offset") or 0)
        elif frame.kind == frames.CLOSE:
            del self._opened[self._node, frame.number]
        else:
            name, size = self._opened[self._node, frame.number]
            self._opened[self._node, frame.number] = (name, size + len(frame.piece))


def of_attempt(attempt: AttemptDir, job: Job, url: str, journal: Journal) -> StoredRecord:
    """The record of an attempt from where an earlier process has left it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # every log of the run is an open file
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    note, show = partial(journal.keep_record, attempt.number), NodeRecords(attempt, job).show
    return StoredRecord(attempt, job.nodes, url, *journal.record(attempt.number), note, show)


def _is_node(value: object, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def _is_pair(value: object, count: int) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_node(value[0], count)


def _list(data: dict[str, Any], name: str) -> list[Any]:
    found = data.get(name)
    return found if isinstance(found, list) else []
