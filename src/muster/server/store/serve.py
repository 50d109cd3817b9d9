"""Serves a store on an address: each connection in a thread of its own, up to a limit."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
import time

from muster.server.store.protocol.handler import serve_connection
from muster.server.store.protocol.http import BUFFER, SILENCE, Connection, Gone, limit_silence
from muster.server.store.store import Store

MOST_CONNECTIONS = 1000  # others wait until one ends
MOST_IDLE = 32  # threads that wait for connections
BACKLOG = 512
HANDSHAKE = 10.0  # seconds for TLS to begin
LINGER = 2.0  # seconds in which a client that was refused may read why
CLOSING = 30.0  # seconds for what is being written when the server is closed


class Server:
    """A store that is served, in threads of this process: each accepts a connection, serves it, and accepts the next."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None, store: Store) -> None:
        self._listener, self._context, self._store = listener, context, store
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads = self._idle = 0
        self._ended = threading.Event()
        self._closed = False
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limit_silence(listener)
        self._start_thread()

    @property
    def address(self) -> tuple[str, int]:
        host, port, *_ = self._listener.getsockname()
        return host, port

    def wait(self) -> None:
        """Returns when the server was closed."""
        self._ended.wait()

    def close(self) -> None:
        """Takes no more connections, ends those that are open and waits for what they were doing."""
        with self._lock:
            self._closed = True
            for one in (self._listener, *self._open):
                _shut(one)
        self._ended.wait(CLOSING)
        self._listener.close()

    def _start_thread(self) -> None:
        with self._lock:
            self._threads += 1
            self._idle += 1
        threading.Thread(target=self._work, name="store", daemon=True).start()

    def _work(self) -> None:
        buffer = bytearray(BUFFER)
        while (client := self._accept()) is not None:
            if self._begin(client):
                self._start_thread()
            try:
                self._serve(client, buffer)
            except (OSError, Gone):
                pass  # the client is gone
            finally:
                client.close()
            if self._finish(client):
                break
        with self._lock:
            self._threads -= 1
            if self._closed and not self._threads:
                self._ended.set()

    def _accept(self) -> socket.socket | None:
        """The next connection; None when the server was closed."""
        while not self._closed:
            try:
                return self._listener.accept()[0]
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    time.sleep(0.1)
        return None

    def _begin(self, client: socket.socket) -> bool:
        """Counts a connection; True if there has to be another thread for the next."""
        with self._lock:
            self._open.add(client)
            self._idle -= 1
            if self._closed:
                _shut(client)
            return not self._idle and self._threads < MOST_CONNECTIONS

    def _finish(self, client: socket.socket) -> bool:
        """Counts the end of a connection; True if this thread is one too many."""
        with self._lock:
            self._open.discard(client)
            if self._idle >= MOST_IDLE:
                return True
            self._idle += 1
            return False

    def _serve(self, client: socket.socket, buffer: bytearray) -> None:
        if not self._context:
            if serve_connection(self._store, Connection(client, buffer)):
                _linger(client)
            return
        client.settimeout(HANDSHAKE)
        with self._context.wrap_socket(client, server_side=True, suppress_ragged_eofs=True) as secure:
            secure.settimeout(SILENCE)
            with self._lock:
                self._open.add(secure)
            try:
                serve_connection(self._store, Connection(secure, buffer))
            finally:
                with self._lock:
                    self._open.discard(secure)


def serve(where: socket.socket | tuple[str, int], context: ssl.SSLContext | None, store: Store) -> Server:
    """Serves a store on a listening socket, or on a host and a port; port 0 is any that is free."""
    if not isinstance(where, socket.socket):
        family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        where = socket.create_server(where, family=family, backlog=BACKLOG)
    return Server(where, context, store)


def _linger(client: socket.socket) -> None:
    """Lets a client read the last response although it still sends: a close would reset the connection."""
    client.shutdown(socket.SHUT_WR)
    client.settimeout(LINGER)
    for _ in range(64):
        if not client.recv(65536):
            return


def _shut(client: socket.socket) -> None:
    try:
        client.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
