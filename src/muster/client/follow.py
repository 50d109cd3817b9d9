"""Following the logs of a run on a server: every byte once, in order per process, also over broken connections."""

from __future__ import annotations

import base64
import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from muster.client.server import ServerClient
from muster.dataclass import dataclass
from muster.launch.follow import Chunk, Start, Wanted
from muster.records.run_view import RunView
from muster.tester.errors import Unreachable

if TYPE_CHECKING:
    import httpx

PIECE = 1 << 20  # bytes of one request for a log
BLOCK = 1 << 16  # of those in which the last lines are looked for
WAITING = 64  # pieces that are kept for a slow reader
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between two attempts to connect
PATIENCE = 5.0  # seconds for the thread to notice that nobody reads any more


@dataclass(frozen=True)
class RemoteLog:
    """The log of a process on the server."""

    client: ServerClient
    run: str
    attempt: int
    node: int
    process: str
    listed: int  # bytes when it was listed

    @property
    def key(self) -> str:
        return f"{self.attempt}/{self.node}/{self.process}"

    def size(self) -> int:
        return self.listed

    def read(self, offset: int, limit: int) -> bytes:
        where = {"attempt": self.attempt, "node": self.node, "process": self.process}
        return self.client.fetch("runs", self.run, "log", **where, offset=offset, limit=limit)[0]

    def tail_offset(self, lines: int) -> int:
        position, found = self.listed, 0
        while position > 0 and lines > 0:
            start = max(0, position - BLOCK)
            block = self.read(start, position - start)
            at = len(block) - (1 if position == self.listed and block.endswith(b"\n") else 0)
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                found += 1
                if found == lines:
                    return start + at + 1
            position = start
        return position


@dataclass(frozen=True)
class Trouble:
    """Why the connection broke; it is tried again."""

    reason: str


class RemoteFollower:
    """Reads what is new in the logs of a run: a thread reads the stream, so that a signal never waits for it.

    `process` is the one whose logs are wanted, if it is one; the other arguments are those of `AnyRun.follower`.
    """

    def __init__(
        self,
        client: ServerClient,
        run: str,
        wanted: Wanted,
        only: int | None = None,
        start: Start | None = None,
        process: str | None = None,
    ) -> None:
        self._client = client
        self._run = run
        self._wanted = wanted
        self._only = only
        self._process = process
        self._listed: list[RemoteLog] | None = None
        self._offsets = {log.key: start(log) for log in self._logs()} if start else {}
        self._items: queue.Queue[Any] = queue.Queue(WAITING)
        self._closed = threading.Event()
        self._answer: httpx.Response | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> RemoteFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def names(self) -> list[str]:
        return list(dict.fromkeys(log.process for log in self._logs()))

    def chunks(self) -> Iterator[Chunk]:
        """Yields the output as it stood when the logs were listed."""
        for log in self._logs():
            offset = self._offsets.get(log.key, 0)
            while offset < log.listed and (data := log.read(offset, min(PIECE, log.listed - offset))):
                offset += len(data)
                yield Chunk(log.attempt, log.node, log.process, data, offset)

    def items(self, tick: float) -> Iterator[Chunk | RunView | Trouble | None]:
        """Yields output, changes of the run and broken connections until the run ends; None when nothing came for a while."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        while True:
            try:
                item = self._items.get(timeout=tick)
            except queue.Empty:
                yield None
                continue
            if isinstance(item, BaseException):
                raise item
            if item is self:  # the end
                return
            yield item

    def close(self) -> None:
        """Ends the thread: its connection is cut, which also wakes one that waits for output."""
        self._closed.set()
        if self._answer is not None:
            with suppress(OSError, AttributeError, KeyError):
                self._answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            self._reader.join(PATIENCE)

    def _logs(self) -> list[RemoteLog]:
        """The wanted logs that there are, listed once."""
        if self._listed is None:
            listed = self._client.get("runs", self._run, "logs")["items"]
            found = [
                RemoteLog(self._client, self._run, log["attempt"], log["node"], log["process"], log["size"]) for log in listed
            ]
            self._listed = [log for log in found if self._wanted(log.attempt, log.process)]
        return self._listed

    def _read(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            try:
                for line in self._lines():
                    pause = FIRST_PAUSE
                    if self._closed.is_set() or self._take(json.loads(line)):
                        return
            except Unreachable as error:
                self._put(Trouble(str(error).partition("; check")[0]))
            except Exception as error:  # shown by the thread that follows
                self._put(error)
                return
            self._closed.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _lines(self) -> Iterator[bytes]:
        chosen = {"attempt": self._only, "processes": [self._process] if self._process else None}
        body = {**chosen, "offsets": dict(self._offsets), "tail": None}
        with self._client.stream("POST", "runs", self._run, "follow", body=body) as answer:
            self._answer = answer
            rest = b""
            for data in answer.iter_bytes():
                *lines, rest = (rest + data).split(b"\n")
                yield from (line for line in lines if line)

    def _take(self, line: dict[str, Any]) -> bool:
        """Passes one object of the stream on; returns whether it was the last."""
        if "log" in line:
            attempt, node, process = line["log"]
            self._take_output(attempt, node, process, base64.b64decode(line["data"]), line["offset"])
        elif "run" in line:
            view = RunView.from_shown(line["run"])
            self._put(view)
            if self._only is not None and view.attempt > self._only:  # it writes no more
                self._listed = None
                for chunk in self.chunks():
                    self._put(chunk)
                self._put(self)
                return True
        elif "end" in line:
            self._put(RunView.from_shown(line["end"]))
            self._put(self)
            return True
        return False

    def _take_output(self, attempt: int, node: int, process: str, data: bytes, end: int) -> None:
        """Passes output on, without what is known: a stream that was broken may begin earlier."""
        key = f"{attempt}/{node}/{process}"
        known = self._offsets.get(key, 0)
        new = data[max(0, known - (end - len(data))) :]
        if not new:
            return
        self._offsets[key] = end
        if self._wanted(attempt, process):
            self._put(Chunk(attempt, node, process, new, end))

    def _put(self, item: object) -> None:
        """Hands an item to the thread that follows, and waits while that is slow."""
        while not self._closed.is_set():
            with suppress(queue.Full):
                self._items.put(item, timeout=0.5)
                return
