"""WebSockets to a server: connections to ports of its runs. The token goes in a header, as with every request."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from contextlib import suppress
from urllib.parse import quote, urlencode, urlsplit

import wsproto
from wsproto import events

from muster.client.runs import RemoteRun
from muster.client.server import API, ServerClient
from muster.launch.connections import NotReady
from muster.records.untrusted import printable
from muster.tester.errors import Unreachable

CONNECT = 10.0  # seconds
PIECE = 1 << 16
REFUSED = 4000  # with which the server closes what it does not allow


class Connection:
    """A connection to a port of a run's node. `token` opens the endpoint there, if it is one that Muster started."""

    def __init__(self, run: RemoteRun, **query: object) -> None:
        """Raises NotReady with the server's reason, and Unreachable."""
        client = run.server.client
        path = f"{API}/runs/{quote(run.id, safe='')}/connect"
        given = {name: str(value) for name, value in query.items() if value is not None}
        self._url = client.url
        self._lock = threading.Lock()
        self._socket = _opened(client)
        self._ws = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._waiting: list[events.Event] = []
        parts = urlsplit(client.url)
        headers = [(b"Authorization", client.credential.encode()), (b"Origin", f"{parts.scheme}://{parts.netloc}".encode())]
        try:
            self._send(events.Request(host=parts.netloc, target=f"{path}?{urlencode(given)}", extra_headers=headers))
            if not isinstance(self._next(), events.AcceptConnection):
                raise Unreachable(f"{self._url} does not open WebSockets; a proxy before it may have to be told")
            first = self._next()
            if not isinstance(first, events.TextMessage):
                raise self._why(first)
            self.token = str(json.loads(first.data).get("token") or "")
        except BaseException:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        """Sends bytes; none end this direction."""
        with suppress(OSError, wsproto.utilities.LocalProtocolError):  # the other end is gone
            self._send(events.BytesMessage(data))

    def receive(self) -> bytes:
        """The next bytes; none at the end."""
        while True:
            event = self._next()
            if isinstance(event, events.BytesMessage) and event.data:
                return bytes(event.data)
            if event is None or isinstance(event, events.CloseConnection):
                return b""

    def close(self) -> None:
        with suppress(OSError, wsproto.utilities.LocalProtocolError):
            self._send(events.CloseConnection(1000))
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _send(self, event: events.Event) -> None:
        with self._lock:
            self._socket.sendall(self._ws.send(event))

    def _next(self) -> events.Event | None:
        """The next event but pings; None where the connection has ended."""
        while True:
            while self._waiting:
                event = self._waiting.pop(0)
                if not isinstance(event, events.Ping):
                    return event
                self._send(event.response())
            try:
                data = self._socket.recv(PIECE)
            except OSError:
                return None
            if not data:
                return None
            with self._lock:
                try:
                    self._ws.receive_data(data)
                except wsproto.utilities.RemoteProtocolError:
                    return None
                self._waiting += list(self._ws.events())

    def _why(self, event: events.Event | None) -> Exception:
        if isinstance(event, events.CloseConnection) and event.code == REFUSED:
            return NotReady(printable(event.reason or "") or "the server does not allow it")
        return Unreachable(f"the server at {self._url} ended the connection; try again")


def _opened(client: ServerClient) -> socket.socket:
    parts = urlsplit(client.url)
    secure = parts.scheme == "https"
    try:
        plain = client.addresses.connect(parts.hostname or "", parts.port or (443 if secure else 80), CONNECT)
        plain.settimeout(None)
        verify = client.trust
        context = verify if isinstance(verify, ssl.SSLContext) else ssl.create_default_context()
        return context.wrap_socket(plain, server_hostname=parts.hostname) if secure else plain
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unreachable(
            f"the server at {client.url} cannot be reached: {reason}; check the address and that it runs"
        ) from None
