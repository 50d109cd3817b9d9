"""Networks and servers that misbehave: real sockets between a client and a real server, and a store with hostile names."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape


class Proxy:
    """Passes bytes on to a server until `limit` bytes went in one direction; then it stalls, or cuts the connection."""

    def __init__(self, endpoint: str, limit: int, upwards: bool, cut: bool) -> None:
        parts = urlsplit(endpoint)
        self._server = (str(parts.hostname), int(parts.port or 80))
        self._limit, self._upwards, self._cut = limit, upwards, cut
        self._passed = 0
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.broken = False
        self.once = False  # whether it behaves again after the first cut
        self._start(self._accept)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            self._start(self._pass, client, server, True)
            self._start(self._pass, server, client, False)

    def _pass(self, source: socket.socket, target: socket.socket, upwards: bool) -> None:
        try:
            while data := source.recv(65536):
                if upwards == self._upwards and self._counted(len(data)):
                    if self._cut:
                        target.shutdown(socket.SHUT_RDWR)
                        source.shutdown(socket.SHUT_RDWR)
                    return  # silent from now on
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _counted(self, size: int) -> bool:
        with self._lock:
            self._passed += size
            first = not self.broken and self._passed > self._limit
            self.broken = self.broken or first
            return first or (self.broken and not self.once)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed by the other side
        for thread in self._threads:
            thread.join(5)
        for each in self._sockets:
            each.close()


@contextmanager
def proxy(endpoint: str, limit: int, upwards: bool, cut: bool) -> Iterator[Proxy]:
    made = Proxy(endpoint, limit, upwards, cut)
    try:
        yield made
    finally:
        made.close()


class _Hostile(BaseHTTPRequestHandler):
    keys: tuple[str, ...] = ()
    contents: Iterator[bytes] = repeat(b"evil")
    etag = "e"

    def do_GET(self) -> None:
        if "?" in self.path:
            listed = "".join(
                f"<Contents><Key>{escape(quote(key))}</Key><Size>4</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f'<ETag>"{self.etag}"</ETag></Contents>'
                for key in self.keys
            )
            body = f"<ListBucketResult><EncodingType>url</EncodingType>{listed}</ListBucketResult>".encode()
        else:
            body = next(self.contents)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{self.etag}"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def hostile_store(
    *keys: str, contents: Iterator[bytes] = _Hostile.contents, etag: str = _Hostile.etag
) -> AbstractContextManager[str]:
    """The endpoint of a store that lists exactly these keys, and gives out one content after the other for any of them."""
    return _served(type("Handler", (_Hostile,), {"keys": keys, "contents": contents, "etag": etag}))


class _Odd(BaseHTTPRequestHandler):
    facts: dict[str, str] | None = None
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def do_HEAD(self) -> None:
        self.send_response(404 if self.facts is None else 200)
        for name, value in (self.facts or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def odd_server(facts: dict[str, str] | None, body: bytes) -> AbstractContextManager[str]:
    """The endpoint of a server that is no store: it answers HEAD with these headers, or 404, and GET with this body."""
    return _served(type("Handler", (_Odd,), {"facts": facts, "body": body}))


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
