"""A proxy before the service that breaks some of the requests that go through it, as a test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

LIMIT = 20.0
# What happens to a request. `lost` ones never reach the service; of the others only the answer is.
LOST_CUT, LOST_500, LOST_429 = "lost: cut", "lost: 500", "lost: 429"
CUT, CUT_WITHIN, ANSWERED_500, NO_ANSWER = "cut", "cut within the answer", "answered with 500", "no answer"
FAULTS = (LOST_CUT, LOST_500, LOST_429, CUT, CUT_WITHIN, ANSWERED_500, NO_ANSWER)


@dataclass
class BrokenLine:
    """`faults` happen to requests that `applies` to, one after the other; then none does."""

    port: int
    applies: Callable[[str], bool]
    faults: list[str] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def broken_line(target: int, faults: list[str], applies: Callable[[str], bool]) -> Iterator[BrokenLine]:
    """`applies` gets the first line of a request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = BrokenLine(listener.getsockname()[1], applies, list(faults))
        threads: list[threading.Thread] = []
        over = threading.Event()

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=_serve, args=(line, client, target, over)))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield line
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for thread in threads:
                thread.join()


def _serve(line: BrokenLine, client: socket.socket, target: int, over: threading.Event) -> None:
    """Carries one request and its answer."""
    client.settimeout(LIMIT)
    with client, suppress(OSError):
        head, body = _request(client)
        if not head:
            return
        first = head.partition(b"\r\n")[0].decode()
        fault = line.faults.pop(0) if line.faults and line.applies(first) else ""
        if fault:
            line.happened.append(fault)
        if fault == LOST_CUT:
            return
        if fault == LOST_500:
            client.sendall(_answer("500 Internal Server Error"))
            return
        if fault == LOST_429:
            client.sendall(_answer("429 Too Many Requests", "Retry-After: 1\r\n"))
            return
        lines = [one for one in head.split(b"\r\n") if not one.lower().startswith(b"connection:")]
        with socket.create_connection(("127.0.0.1", target), LIMIT) as server:
            server.sendall(b"\r\n".join(lines) + b"\r\nConnection: close\r\n\r\n" + body)
            answer = b""
            while piece := server.recv(1 << 16):
                answer += piece
        if fault == CUT:
            return
        if fault == ANSWERED_500:
            answer = _answer("500 Internal Server Error")
        elif fault == CUT_WITHIN:
            answer = answer[: len(answer) - 40]
        elif fault == NO_ANSWER:
            over.wait(LIMIT / 4)
            return
        client.sendall(answer)


def _request(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(1 << 16)
        if not piece:
            return b"", b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [int(one.split(b":")[1]) for one in head.split(b"\r\n") if one.lower().startswith(b"content-length:")]
    while len(body) < (sizes[0] if sizes else 0):
        body += client.recv(1 << 16)
    return head, body


def _answer(status: str, headers: str = "") -> bytes:
    body = b'{"error_code": "APIG.0201", "error_msg": "Backend unavailable"}'
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body
    )
