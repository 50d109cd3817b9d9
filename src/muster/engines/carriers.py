"""Connections to ports of nodes on other machines: one process for each node that is reached, which carries them all."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from muster.channel.stream import carrier
from muster.channel.stream.tunnel import Tunnel
from muster.engines import EngineError

IDLE = 60.0  # seconds that one without connections is kept
OPENING = 60.0  # seconds for the far end to say that it is there


class Stream(Protocol):
    """A process on this machine at whose other end is a carrier."""

    reader: int
    writer: int
    early: bytes

    def close(self) -> None: ...


class Carriers:
    """The carriers of this process, by what they lead to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opening: dict[object, threading.Lock] = {}
        self._carriers: dict[object, _Carrier] = {}

    def open(self, key: object, start: Callable[[], Stream], port: int) -> socket.socket:
        """Opens a connection to a port, by the carrier of `key`, which is started where there is none. Raises EngineError."""
        with self._lock:
            opening = self._opening.setdefault(key, threading.Lock())
        with opening:  # one ssh, however many connections are wanted at once
            found = self._carriers.get(key)
            if found is None or not found.is_alive():
                found = self._carriers[key] = _Carrier(start())
                found.start()
        return found.open(port)

    def close(self) -> None:
        for found in list(self._carriers.values()):
            found.end()


class _Carrier(threading.Thread):
    def __init__(self, stream: Stream) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._tunnel = Tunnel()
        self._wanted: queue.SimpleQueue[tuple[socket.socket, int] | None] = queue.SimpleQueue()
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        self._over = False
        self._used = time.monotonic()

    def open(self, port: int) -> socket.socket:
        near, far = socket.socketpair()
        with self._lock:
            if self._over or self._tunnel.full:
                near.close()
                far.close()
                raise EngineError("the connection to the node has ended, or carries too many others; try again")
            self._ask((far, port))
        return near

    def end(self) -> None:
        with self._lock:
            if not self._over:
                self._ask(None)
        self.join()

    def _ask(self, wanted: tuple[socket.socket, int] | None) -> None:
        self._wanted.put(wanted)
        with suppress(BlockingIOError):  # it is awake already
            os.write(self._wake, b".")

    def run(self) -> None:
        watch = threading.Thread(target=self._end_when_idle, daemon=True)
        watch.start()
        try:
            stream = self._stream
            carrier.carry(self._tunnel, stream.reader, stream.writer, stream.early, self._woken, self._begin)
        finally:
            with self._lock:
                self._over = True
                while not self._wanted.empty():
                    if wanted := self._wanted.get():
                        wanted[0].close()
                os.close(self._wake)
                os.close(self._woken)
            self._stream.close()

    def _begin(self) -> bool:
        """Begins the connections that were asked for; false where the end was."""
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        while not self._wanted.empty():
            wanted = self._wanted.get()
            if wanted is None:
                return False
            self._tunnel.begin(*wanted)
            self._used = time.monotonic()
        return True

    def _end_when_idle(self) -> None:
        while self.is_alive():
            if len(self._tunnel):
                self._used = time.monotonic()
            left = self._used + IDLE - time.monotonic()
            if left <= 0:
                self.end()
                return
            self.join(min(left, IDLE / 4))


class Program:
    """A carrier behind a program that passes its input and output on, such as srun."""

    def __init__(self, argv: list[str], what: str) -> None:
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise EngineError(f"{argv[0]} cannot be started: {error.strerror}") from None
        assert self._process.stdin and self._process.stdout
        self.writer, self.reader = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.early = self._hello(what)

    def _hello(self, what: str) -> bytes:
        """Waits for the far end; returns what came behind its first words. Raises EngineError."""
        said, limit = b"", threading.Timer(OPENING, self._process.kill)
        limit.start()
        try:
            while carrier.HELLO not in said:
                if not (piece := os.read(self.reader, 1 << 16)) or len(said) > 1 << 16:
                    self._process.kill()
                    assert self._process.stderr
                    words = self._process.stderr.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
                    self.close()
                    raise EngineError(f"{what} cannot be reached: {words[-1] if words else 'it does not answer'}")
                said += piece
        finally:
            limit.cancel()
        return said.partition(carrier.HELLO)[2]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
