"""What the client makes of connections: kept, closed, slow, broken off, and answers in every form of HTTP/1.1."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from guarded_store import guarded
from muster.storage import Storage, StorageError, resolve
from muster.storage.errors import Unreachable
from s3_server import S3

DATE = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
HEAD = f'HTTP/1.1 200 OK\r\n{DATE}ETag: "e"\r\nContent-Length: 4\r\n\r\n'.encode()
BUSY = b"HTTP/1.1 503 Slow Down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
Script = Callable[[str, int], list[bytes]]
"""The pieces in which a method gets its answer, by how many of that method came before; an empty piece hangs up."""


class ScriptedServer:
    def __init__(self, script: Script, pause: float = 0.0) -> None:
        self._script, self._pause = script, pause
        self.asked: list[str] = []
        self.connections = 0
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=target, args=args))
        self._threads[-1].start()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._sockets.append(client)
                self._start(self._serve, client)
        except OSError:
            return

    def _serve(self, client: socket.socket) -> None:
        try:
            while request := self._request(client):
                number = self.asked.count(request)
                self.asked.append(request)
                for piece in self._script(request, number):
                    if not piece:
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    client.sendall(piece)
                    time.sleep(self._pause)
        except OSError:
            return

    def _request(self, client: socket.socket) -> str:
        text = b""
        while b"\r\n\r\n" not in text:
            more = client.recv(65536)
            if not more:
                return ""
            text += more
        return text.split(b" ", 1)[0].decode()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._sockets:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed by the other side
        for thread in self._threads:
            thread.join(5)
        for client in self._sockets:
            client.close()


@contextmanager
def scripted(script: Script, pause: float = 0.0, timeout: str = "5") -> Iterator[tuple[ScriptedServer, Storage]]:
    server = ScriptedServer(script, pause)
    try:
        with Storage(
            resolve("/nonexistent", {}, {"AWS_ENDPOINT_URL": server.endpoint, "MUSTER_STORAGE_TIMEOUT": timeout})
        ) as storage:
            yield server, storage
    finally:
        server.close()


def noted_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Takes note of the client's pauses, which are over at once."""
    pauses: list[float] = []
    monkeypatch.setattr("muster.storage.s3.client.time", SimpleNamespace(time=time.time, sleep=pauses.append))
    return pauses


def serving(*body: bytes) -> Script:
    """A store whose only object is answered with these pieces."""
    return lambda method, number: [HEAD] if method == "HEAD" else list(body)


def test_one_connection_serves_many_requests() -> None:
    with scripted(serving(HEAD + b"data")) as (server, storage):
        assert [storage.read("s3://b/x") for _ in range(5)] == [b"data"] * 5
        assert (len(server.asked), server.connections) == (10, 1)


def test_connections_that_the_server_closed_meanwhile_are_opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = noted_pauses(monkeypatch)
    with scripted(lambda method, number: [HEAD + (b"" if method == "HEAD" else b"data"), b""]) as (_, storage):
        assert [storage.read("s3://b/x") for _ in range(8)] == [b"data"] * 8
    assert pauses == [], "it is no failure of the server"


@pytest.mark.parametrize(
    "body",
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nda\r\n", b"2;x=y\r\nt", b"a\r\n0\r\nTrailer: x\r\n\r\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD[:20], HEAD[20:], b"da", b"ta"),
        (b"HTTP/1.0 200 OK\r\n\r\nda", b"ta", b""),
        (HEAD.replace(b"\r\n", b"\n") + b"data",),
    ],
    ids=["chunked", "in pieces", "until it hangs up", "bare newlines"],
)
def test_a_body_is_read_in_every_form(body: tuple[bytes, ...]) -> None:
    with scripted(serving(*body), pause=0.02) as (_, storage):
        assert [storage.read("s3://b/x") for _ in range(3)] == [b"data"] * 3


def test_a_body_that_breaks_off_is_asked_for_again() -> None:
    def script(method: str, number: int) -> list[bytes]:
        return [HEAD] if method == "HEAD" else [HEAD + b"da", b""] if number < 2 else [HEAD + b"data"]

    with scripted(script) as (server, storage):
        assert storage.read("s3://b/x") == b"data"
        assert server.asked.count("GET") == 3


def test_a_body_that_always_breaks_off_is_an_error_and_never_data() -> None:
    with scripted(serving(HEAD + b"da", b"")) as (_, storage), pytest.raises(Unreachable, match="in the middle"):
        storage.read("s3://b/x")


def test_a_busy_server_is_asked_again_when_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = noted_pauses(monkeypatch)
    with scripted(lambda method, number: [BUSY] if number < 2 else [HEAD]) as (server, storage):
        assert storage.stat("s3://b/x")
        assert server.asked == ["HEAD"] * 3
    assert pauses == [7.0, 7.0]


def test_a_slow_server_is_waited_for_and_a_silent_one_given_up() -> None:
    with scripted(serving(HEAD, b"d", b"a", b"t", b"a"), pause=0.4, timeout="1") as (_, storage):
        assert storage.read("s3://b/x") == b"data"
    with scripted(lambda method, number: [], timeout="0.3") as (server, storage):
        with pytest.raises(Unreachable, match="it stopped answering"):
            storage.stat("s3://b/x")
        assert len(server.asked) == 2


def test_what_is_not_http_is_told() -> None:
    mail = scripted(lambda method, number: [b"220 mail ready\r\n\r\n", b""])
    with mail as (_, storage), pytest.raises(StorageError, match="its answer is not http"):
        storage.stat("s3://b/x")


@pytest.mark.parametrize("size", [0, 1000, (20 << 20) + 5])
def test_objects_are_copied_from_one_store_to_another(s3: S3, home: Path, tmp_path: Path, size: int) -> None:
    bucket = s3.bucket()
    (tmp_path / "file").write_bytes(os.urandom(size))
    with guarded(s3.endpoint) as guard:
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": "", "OBS_ENDPOINT": guard.endpoint}
        with Storage(resolve(str(home), {}, env)) as storage:
            storage.copy_file(str(tmp_path / "file"), f"s3://{bucket}/one")
            report = storage.copy_file(f"s3://{bucket}/one", f"obs://{bucket}/two")
    assert (report.files, report.bytes) == (1, size)
    assert (s3.folder / bucket / "two").read_bytes() == (tmp_path / "file").read_bytes()
