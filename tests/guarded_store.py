"""A real S3 server behind a guard that notes every request and refuses some, as keys with few rights would see it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Refuses = Callable[[str, str], tuple[int, str] | None]
"""The status and the body that a method at a path gets instead of the server's answer."""

DENIED = (403, "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")
LENGTHLESS = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class Guard:
    """A guard that is up; `seen` holds what was asked for, and what was answered."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.seen: list[tuple[str, str, int]] = []

    def asked(self, method: str) -> list[str]:
        return [path for one, path, _ in self.seen if one == method]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    guard: Guard
    server_address: tuple[str, int]
    refuses: Refuses

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        refused = type(self).refuses(self.command, self.path)
        status, answer, headers = (*refused, {}) if refused else self._forward(body)
        data = answer.encode() if isinstance(answer, str) else answer
        self.guard.seen.append((self.command, self.path, status))
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.command == "HEAD" and not refused:
            self.end_headers()
            return
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _forward(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection(*self.server_address)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            dropped = LENGTHLESS if self.command != "HEAD" else LENGTHLESS - {"content-length"}
            headers = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
            return response.status, response.read(), headers
        finally:
            connection.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass

    def log_message(self, format: str, *args: object) -> None:
        return


def refusing_after_the_probe(answer: Callable[[], tuple[int, str] | None]) -> Refuses:
    """A store that takes the small object of the check before a run starts, and then does otherwise."""
    removed: list[str] = []

    def refuse(method: str, path: str) -> tuple[int, str] | None:
        if removed:
            return answer()
        removed.extend([path] if method == "DELETE" else [])
        return None

    return refuse


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing it waits for all of them

    def handle_error(self, request: object, client_address: object) -> None:
        return  # a client that was killed is no news


@contextmanager
def guarded(endpoint: str, refuses: Refuses = lambda method, path: None) -> Iterator[Guard]:
    """A guard before a server."""
    parts = urlsplit(endpoint)
    guard = Guard("")
    fields = {
        "guard": guard,
        "server_address": (parts.hostname, parts.port),
        "refuses": staticmethod(refuses),
    }
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), fields))
    guard.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield guard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
