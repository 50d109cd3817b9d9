"""Connections of commands: to a port of a run, from standard input and output or from a port of this machine."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import click

PIECE = 1 << 16
BACKLOG = 128
MOST = 256  # connections at a time


class Duplex(Protocol):
    """A connection with two directions; sending nothing ends one, receiving nothing is the end of the other."""

    token: str

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes: ...

    def close(self) -> None: ...


class SocketDuplex:
    def __init__(self, connection: socket.socket, token: str = "") -> None:
        connection.settimeout(None)
        self._socket = connection
        self.token = token

    def send(self, data: bytes) -> None:
        with suppress(OSError):  # the other end is gone
            self._socket.sendall(data) if data else self._socket.shutdown(socket.SHUT_WR)

    def receive(self) -> bytes:
        with suppress(OSError):
            return self._socket.recv(PIECE)
        return b""

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def through_standard_streams(connection: Duplex) -> None:
    """Passes standard input to the connection and what comes back to standard output, until the other end closes it."""

    def send() -> None:
        with suppress(OSError):
            while data := os.read(0, PIECE):
                connection.send(data)
        connection.send(b"")

    threading.Thread(target=send, daemon=True).start()
    while data := connection.receive():
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


def bound(port: int) -> socket.socket:
    """A socket that listens on loopback. Raises UsageError for a port that is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise click.UsageError(
            f"port {port} cannot be had: {str(error.strerror).lower()}; choose another for --listen"
        ) from None
    listener.listen(BACKLOG)
    return listener


def serve(listener: socket.socket, opened: Callable[[], Duplex], say: Callable[[str], None]) -> None:
    """Gives each connection to a port of this machine one of its own to the run, until Ctrl-C."""
    room = threading.Semaphore(MOST)

    def carry(near: socket.socket) -> None:
        with room, near:
            try:
                far = opened()
            except Exception as error:
                say(str(error))
                return
            ends = SocketDuplex(near)
            back = threading.Thread(target=_copy, args=(far, ends), daemon=True)
            back.start()
            _copy(ends, far)
            back.join()
            far.close()

    while True:
        select.select([listener], [], [])  # Ctrl-C ends it here
        near, _ = listener.accept()
        threading.Thread(target=carry, args=(near,), daemon=True).start()


def _copy(source: Duplex, target: Duplex) -> None:
    while data := source.receive():
        target.send(data)
    target.send(b"")
