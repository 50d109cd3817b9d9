"""The line to Muster, which does the transfers: the agent of the run, or a process of one's own outside of a run.

Every thread has lines of its own, and one that is in use is nobody else's: a signal handler that saves a checkpoint opens
another. A line is never shared with a forked process.
"""

import json
import os
import select
import socket
import struct
import subprocess
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

from .errors import MoxFileReadException, MoxFileRespException

_LENGTH = struct.Struct(">I")
_PYTHON = "muster-python"  # the file beside the package that names Muster's Python

Request = Dict[str, Any]
Answer = Dict[str, Any]
T = TypeVar("T")


class Line:
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
        """Whether an idle line leads nowhere: there is nothing to be read from one but its end."""
        watch = select.poll()  # the other call fails in a process with very many files open
        watch.register(self._socket, select.POLLIN)
        return bool(watch.poll(0))

    def close(self) -> None:
        self._socket.close()

    __del__ = close


class _Mine(threading.local):
    """The lines of a thread that wait for its next request."""

    def __init__(self) -> None:
        self.idle: List[Line] = []


_mine = _Mine()
_open: "weakref.WeakSet[Line]" = weakref.WeakSet()
_own: "Optional[_OwnServer]" = None
_starting = threading.Lock()


class Exchange:
    """One request and its answers, on a line that is nobody else's until all is read."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._done = False

    def __enter__(self) -> "Exchange":
        self._line = _take()
        try:
            self._line.send(self._request)
        except OSError as error:
            self._line.close()
            raise _unreachable(error) from None
        return self

    def answers(self) -> Iterator[Answer]:
        """What comes back; the last answer has `value` or `error`."""
        while not self._done:
            answer = self._read(self._line.receive)
            self._done = "bytes" not in answer and "items" not in answer
            yield answer

    def bytes(self, size: int) -> bytearray:
        """The bytes that an answer announced."""
        return self._read(lambda: self._line.receive_bytes(size))

    def _read(self, receive: Callable[[], T]) -> T:
        try:
            return receive()
        except (OSError, ValueError) as error:
            raise _unreachable(error) from None

    def __exit__(self, *unused: Any) -> None:
        if self._done:
            _mine.idle.append(self._line)
        else:
            self._line.close()  # what is still on its way would be taken for the answer to the next request


def _take() -> Line:
    while _mine.idle:
        line = _mine.idle.pop()
        if line.process == os.getpid() and not line.ended():
            return line
        line.close()
    try:
        line = Line(_server())
    except OSError as error:
        raise _unreachable(error) from None
    _open.add(line)
    return line


def _server() -> str:
    """The name of the socket to ask at."""
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


def _forget_lines() -> None:
    """In a forked process: lets go of the lines of the other one."""
    global _starting
    _starting = threading.Lock()
    for line in list(_open):
        line.close()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lines)
