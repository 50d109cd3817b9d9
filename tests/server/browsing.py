"""Browsers of the tests: HTTP and WebSockets at the origin of an endpoint, byte by byte."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import wsproto
from wsproto import events

from muster_server import MusterServer


class WebSocket:
    """A WebSocket whose handshake has every header that the test gives."""

    def __init__(self, connection: socket.socket, host: str, path: str, headers: dict[str, str]) -> None:
        self._socket = connection
        self._ws = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.send(events.Request(host=host, target=path, extra_headers=extra))
        self.accepted = self.next()
        self.status = 101 if isinstance(self.accepted, events.AcceptConnection) else getattr(self.accepted, "status_code", None)

    def send(self, event: events.Event) -> None:
        self._socket.sendall(self._ws.send(event))

    def next(self) -> events.Event | None:
        """The next event; None when the connection has ended."""
        while True:
            for event in self._ws.events():
                if isinstance(event, events.Ping):
                    self.send(event.response())
                    continue
                return event
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            try:
                self._ws.receive_data(data)
            except wsproto.utilities.RemoteProtocolError as error:
                return error.event_hint

    def bytes_until(self, wanted: bytes) -> bytes:
        """All that is shown until some bytes are among it."""
        found = b""
        while wanted not in found:
            event = self.next()
            assert isinstance(event, events.BytesMessage), (event, found)
            found += bytes(event.data)
        return found

    def closed(self) -> events.Event | None:
        """The event with which it ends, whatever comes before."""
        while True:
            event = self.next()
            if event is None or isinstance(event, events.CloseConnection):
                return event

    def text(self) -> dict[str, int]:
        """The next text, whatever bytes come before."""
        while True:
            event = self.next()
            assert event is not None
            if isinstance(event, events.TextMessage):
                found: dict[str, int] = json.loads(event.data)
                return found


@contextmanager
def web_socket(server: MusterServer, path: str, headers: dict[str, str], host: str | None = None) -> Iterator[WebSocket]:
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        yield WebSocket(connection, host or urlsplit(server.url).netloc, path, headers)


@contextmanager
def on_endpoint(server: MusterServer, host: str, **headers: str) -> Iterator[httpx.Client]:
    """A browser at the origin of an endpoint: what resolves `*.localhost` is left out."""
    with httpx.Client(
        base_url=server.url, headers={"Host": host, **headers}, timeout=30, trust_env=False, verify=server.trust
    ) as http:
        yield http


def enter(server: MusterServer, link: str) -> tuple[str, str]:
    """Follows the link of a ticket; returns host and cookie."""
    parts = urlsplit(link)
    with on_endpoint(server, parts.netloc) as http:
        answer = http.get(f"{parts.path}?{parts.query}")
        assert answer.status_code == 200, answer.text
        kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept and "SameSite=strict" in kept and "Domain" not in kept
    return parts.netloc, kept.partition(";")[0]
