"""A TCP proxy that breaks connections in the middle of the answers to chosen requests, or before them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

Cut = Callable[[int, bytes], "int | None"]
"""Says by the number and the first bytes of a request how much of its answer comes before the connection breaks; None: all."""
METHODS = (b"GET", b"POST", b"PUT", b"DELETE")


class CuttingProxy:
    def __init__(self, port: int, cut: Cut) -> None:
        self._port = port
        self._cut = cut
        self._numbers = count()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.cuts = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        for one in [self._listener, *self._sockets]:
            _close(one)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                link = _Link(client, socket.create_connection(("127.0.0.1", self._port)))
                self._sockets += [link.client, link.server]
                self._begin(self._send, link)
                self._begin(self._answer, link)

    def _begin(self, target: Callable[[_Link], None], link: _Link) -> None:
        self._threads.append(threading.Thread(target=target, args=(link,)))
        self._threads[-1].start()

    def _send(self, link: _Link) -> None:
        """Passes requests on; each may say when the connection breaks."""
        with suppress(OSError):
            while data := link.client.recv(1 << 16):
                if data.split(b" ", 1)[0] in METHODS:
                    link.left = self._cut(next(self._numbers), data)
                link.server.sendall(data)
        link.close()

    def _answer(self, link: _Link) -> None:
        with suppress(OSError):
            while data := link.server.recv(1 << 16):
                if link.left is not None:
                    data = data[: link.left]
                    link.left -= len(data)
                link.client.sendall(data)
                if link.left == 0:
                    self.cuts += 1
                    break
        link.close()


@dataclass
class _Link:
    """A connection of a client, and the one to the server that stands for it."""

    client: socket.socket
    server: socket.socket
    left: int | None = None  # bytes of answers until it breaks

    def close(self) -> None:
        _close(self.client)
        _close(self.server)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def cutting(port: int, cut: Cut) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(port, cut)
    try:
        yield proxy
    finally:
        proxy.close()
