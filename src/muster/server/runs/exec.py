"""Commands beside a rank, for people at the other end of a connection: `muster exec` in a terminal of the server's.

A session is one process of the command line, which knows how to reach the rank on every engine, and becomes its user.
"""

import asyncio
import fcntl
import os
import queue
import secrets
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from muster.server.runs.environment import KEPT
from muster.tester.errors import Denied

MOST = 64  # sessions at once
MOST_OF_USER = 16  # of one user, so that others find room
PIECE = 1 << 14
BEHIND = 64  # pieces that a slow reader may be behind
TAKEN = 10.0  # seconds for which a request waits until the command has taken its input
WAIT = 0.5  # seconds between two looks whether a session is over
NO_SESSION = "there is no such session; it has ended, or is somebody else's"


@dataclass(frozen=True)
class Session:
    """A running command. `output` gives what it writes, in pieces with the name of the stream, and None at its end.

    The reader, a thread, closes everything at the end: processes that the command left behind may hold its streams open, and
    neither they nor a command that does not read its input keep a request waiting.
    """

    user: str
    run: str
    process: subprocess.Popen[bytes]
    input: int
    terminal: bool
    output: queue.Queue[tuple[str, bytes] | None] = field(default_factory=lambda: queue.Queue(BEHIND))
    over: threading.Event = field(default_factory=threading.Event)
    wake_reader: int = field(default_factory=lambda: os.eventfd(0, os.EFD_CLOEXEC))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # input arrives in the order in which it was sent
    _lock: threading.Lock = field(default_factory=threading.Lock)  # held while descriptors are copied or closed

    async def send(self, data: bytes) -> int:
        """Writes to the command's input, which nothing at all ends; returns how many bytes it took within some seconds."""
        deadline = time.monotonic() + TAKEN
        async with self._turn:
            if not data:
                self._end_input()
                return 0
            descriptor = self._input_copy()
            if descriptor is None:
                return len(data)  # the command has ended: nobody reads it
            try:
                return await self._written(descriptor, data, deadline)
            finally:
                os.close(descriptor)

    async def _written(self, descriptor: int, data: bytes, deadline: float) -> int:
        taken = 0
        while taken < len(data) and not self.over.is_set() and time.monotonic() < deadline:
            try:
                taken += os.write(descriptor, data[taken:])
            except BlockingIOError:
                await _writable(descriptor, WAIT)
            except OSError:
                return len(data)  # it does not read any more
        return len(data) if self.over.is_set() else taken

    def _input_copy(self) -> int | None:
        with self._lock:
            closed = self.over.is_set() or (self.process.stdin is not None and self.process.stdin.closed)
            return None if closed else os.dup(self.input)

    def _end_input(self) -> None:
        with self._lock:
            if self.process.stdin is not None:
                self.process.stdin.close()

    def resize(self, rows: int, columns: int) -> None:
        with self._lock, suppress(OSError):
            if self.terminal and not self.over.is_set():
                fcntl.ioctl(self.input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self) -> None:
        """Kills the command, if it still runs, and lets the reader close all that it has. Returns at once."""
        with self._lock:
            if self.over.is_set():
                return
            self.over.set()
            if self.process.poll() is None:
                self.process.kill()
                with suppress(ProcessLookupError):  # it leads a group of its own
                    os.killpg(self.process.pid, signal.SIGKILL)
            os.eventfd_write(self.wake_reader, 1)

    def close(self) -> None:
        """Closes the descriptors of a session that is over."""
        with self._lock:
            if self.terminal:
                os.close(self.input)
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()
            os.close(self.wake_reader)


async def _writable(descriptor: int, seconds: float) -> None:
    """Waits until a pipe or terminal takes more, at most so long."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(ready.wait(), seconds)
    finally:
        loop.remove_writer(descriptor)


class Sessions:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def find(self, name: str, user: str, run: str) -> Session:
        """Returns a session of this user at this run. Raises Denied."""
        found = self._sessions.get(name)
        if found is None or (found.user, found.run) != (user, run):
            raise Denied(404, NO_SESSION)
        return found

    @contextmanager
    def open(
        self,
        user: str,
        run: str,
        home: str,
        rank: int,
        words: list[str],
        size: tuple[int, int] | None,
        wake: Callable[[], None],
    ) -> Iterator[tuple[str, Session]]:
        """Starts a command beside a rank, in a terminal of a size or without one; ends it with the context."""
        name = secrets.token_urlsafe(16)
        with self._lock:
            if len(self._sessions) >= MOST:
                raise Denied(503, f"the server has {MOST} commands and terminals beside ranks already; try again later")
            if sum(one.user == user for one in self._sessions.values()) >= MOST_OF_USER:
                raise Denied(409, f"you have {MOST_OF_USER} commands and terminals beside ranks open already; end some first")
            session = _start(user, run, home, rank, words, size)
            self._sessions[name] = session
        threading.Thread(target=_read, args=(session, wake), name="exec", daemon=True).start()
        try:
            yield name, session
        finally:
            with self._lock:
                del self._sessions[name]
            session.end()


def _start(user: str, run: str, home: str, rank: int, words: list[str], size: tuple[int, int] | None) -> Session:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment.update(MUSTER_HOME=home, TERM="xterm-256color")
    argv = [sys.executable, "-m", "muster", "exec", run, "--rank", str(rank), "--", *words]
    if size is None:
        process = subprocess.Popen(
            argv,
            cwd="/",
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return Session(user, run, process, process.stdin.fileno(), False)
    near, far = os.openpty()
    os.set_blocking(near, False)
    try:
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        command = ["setsid", "--ctty", "--wait", *argv]  # a session of its own, which the terminal controls
        process = subprocess.Popen(command, cwd="/", env=environment, stdin=far, stdout=far, stderr=far)
    finally:
        os.close(far)
    return Session(user, run, process, near, True)


def _read(session: Session, wake: Callable[[], None]) -> None:
    """Passes on what a command writes, until its end or that of the session. A slow reader makes the command wait."""
    process = session.process
    streams = {session.input: "data"} if session.terminal else {}
    for name, stream in (("data", process.stdout), ("error", process.stderr)):
        if stream is not None:
            streams[stream.fileno()] = name
    poll = select.poll()
    for descriptor in (*streams, session.wake_reader):
        poll.register(descriptor, select.POLLIN)
    while streams and not session.over.is_set():
        for descriptor, _ in poll.poll():
            if descriptor == session.wake_reader:
                break
            try:
                piece = os.read(descriptor, PIECE)
            except BlockingIOError:
                continue
            except OSError:
                piece = b""  # the terminal has no process any more
            if not piece:
                poll.unregister(descriptor)
                del streams[descriptor]
                continue
            _put(session, (streams[descriptor], piece))
            wake()
    process.wait()
    _put(session, None)
    wake()
    session.over.wait()
    session.close()


def _put(session: Session, piece: tuple[str, bytes] | None) -> None:
    while not session.over.is_set():
        with suppress(queue.Full):
            session.output.put(piece, timeout=WAIT)
            return
