"""Connections to Muster's storage server: that of the run's agent, or outside of a run one that this process starts.

Every thread has connections of its own, with one request at a time: a signal handler that saves a checkpoint opens another.
A connection is never shared with a forked process.
"""

import json
import os
import select
import socket
import struct
import subprocess
import threading
import weakref
from typing import Any, Dict, Iterator, List, Optional

from .errors import MoxFileReadException, MoxFileRespException

_LENGTH = struct.Struct(">I")
_PYTHON = "muster-python"  # the file beside the package that names Muster's Python

Request = Dict[str, Any]
Answer = Dict[str, Any]


class Connection:
    """A connection, with one request at a time: a frame of JSON each way, an answer may be followed by bytes."""

    def __init__(self, name: str) -> None:
        self.process = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect("\0" + name[1:] if name.startswith("@") else name)

    def send(self, request: Request) -> None:
        text = json.dumps(request).encode()
        self._socket.sendall(_LENGTH.pack(len(text)) + text)

    def receive(self) -> Answer:
        (length,) = _LENGTH.unpack(self.receive_bytes(_LENGTH.size))
        answer: Answer = json.loads(self.receive_bytes(length).decode())
        return answer

    def receive_bytes(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionResetError("the connection ended")
            view = view[count:]
        return data

    def ended(self) -> bool:
        """True if the server closed an idle connection: nothing but its end can be read from one."""
        watch = select.poll()  # the other call fails in a process with very many files open
        watch.register(self._socket, select.POLLIN)
        return bool(watch.poll(0))

    def close(self) -> None:
        self._socket.close()

    __del__ = close


class _Mine(threading.local):
    """The idle connections of a thread."""

    def __init__(self) -> None:
        self.idle: List[Connection] = []


_mine = _Mine()
_open: "weakref.WeakSet[Connection]" = weakref.WeakSet()
_own: "Optional[_OwnServer]" = None
_starting = threading.Lock()


def answers(request: Request) -> Iterator[Answer]:
    """Sends a request and yields its answers: `items`, `bytes` with the `data` itself, and last `value` or `error`.

    The connection serves no other request until all is read.
    """
    connection = _take()
    done = False
    try:
        connection.send(request)
        while not done:
            answer = connection.receive()
            if "bytes" in answer:
                answer["data"] = connection.receive_bytes(answer["bytes"])
            elif "items" not in answer:
                done = True
                _mine.idle.append(connection)
            yield answer
    except (OSError, ValueError) as error:
        raise _unreachable(error) from None
    finally:
        if not done:
            connection.close()  # what is still on its way would be taken for the answer to the next request


def _take() -> Connection:
    while _mine.idle:
        connection = _mine.idle.pop()
        if connection.process == os.getpid() and not connection.ended():
            return connection
        connection.close()
    try:
        connection = Connection(_server())
    except OSError as error:
        raise _unreachable(error) from None
    _open.add(connection)
    return connection


def _server() -> str:
    """The name of the server's socket; starts a server where there is none."""
    global _own
    given = os.environ.get("MUSTER_SOCKET")
    if given:
        return given
    with _starting:
        if _own is None or not _own.alive():
            _own = _OwnServer(_python())
        return _own.name


def _python() -> str:
    """Muster's Python, by the file that `muster moxing-path` wrote beside this package."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        with open(os.path.join(os.path.dirname(package), _PYTHON)) as file:
            return file.read().strip()
    except OSError:
        raise MoxFileRespException(
            "moxing has no store to ask here; start the program with `muster run`, or set PYTHONPATH=$(muster moxing-path)"
        ) from None


class _OwnServer:
    """A server for this process and those that it forks; it ends with the last of them, whose end closes a pipe."""

    def __init__(self, python: str) -> None:
        self.name = f"@muster/moxing/{os.urandom(8).hex()}"
        self._owner = os.getpid()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        lifeline, self._lifeline = os.pipe()
        try:
            listener.bind("\0" + self.name[1:])
            listener.listen(1024)
            words = [python, "-I", "-m", "muster.cli.moxing_server", str(listener.fileno()), str(lifeline)]
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=(listener.fileno(), lifeline))
        finally:
            listener.close()
            os.close(lifeline)

    def alive(self) -> bool:
        return os.getpid() != self._owner or self._process.poll() is None


def _unreachable(error: Exception) -> Exception:
    if isinstance(error, MoxFileRespException):
        return error
    kind = MoxFileReadException if isinstance(error, ConnectionResetError) else MoxFileRespException
    return kind(f"Muster's storage server does not answer ({error}); see whether the run is being stopped")


def _close_inherited() -> None:
    """Closes the connections of the parent in a forked process."""
    global _starting
    _starting = threading.Lock()
    for connection in list(_open):
        connection.close()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
