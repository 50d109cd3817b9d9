"""Commands beside a rank, for people at the other end of a connection: `muster exec` in a terminal of the server's.

A session is one process of the command line, which knows how to reach the rank on every engine, and becomes its user.
"""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from muster.server.runs.environment import KEPT
from muster.tester.errors import Denied

MOST = 64  # sessions at once
PIECE = 1 << 14
BEHIND = 64  # pieces that a slow reader may be behind
NO_SESSION = "there is no such session; it has ended, or is somebody else's"


@dataclass(frozen=True)
class Session:
    """A running command. `output` gives what it writes, in pieces with the name of the stream, and None at its end."""

    user: str
    run: str
    process: subprocess.Popen[bytes]
    input: int
    terminal: bool
    output: queue.Queue[tuple[str, bytes] | None] = field(default_factory=lambda: queue.Queue(BEHIND))

    def send(self, data: bytes) -> None:
        """Writes to the command's standard input; nothing at all ends it."""
        if not data and self.process.stdin is not None:
            self.process.stdin.close()
        with suppress(OSError):  # it does not read any more
            while data:
                data = data[os.write(self.input, data) :]

    def resize(self, rows: int, columns: int) -> None:
        if self.terminal:
            with suppress(OSError):
                fcntl.ioctl(self.input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self) -> None:
        self.process.kill()
        with suppress(ProcessLookupError):  # it leads a group of its own
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.terminal:
            os.close(self.input)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


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
                raise Denied(503, f"the server has {MOST} sessions of `exec` already; try again later")
            session = _start(user, run, home, rank, words, size)
            self._sessions[name] = session
        reader = threading.Thread(target=_read, args=(session, wake), daemon=True)
        reader.start()
        try:
            yield name, session
        finally:
            with self._lock:
                del self._sessions[name]
            session.end()
            while reader.is_alive():
                with suppress(queue.Empty):
                    session.output.get(timeout=0.05)
            session.close()


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
        return Session(user, run, process, process.stdin.fileno(), False)
    near, far = os.openpty()
    try:
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        command = ["setsid", "--ctty", "--wait", *argv]  # a session of its own, which the terminal controls
        process = subprocess.Popen(command, cwd="/", env=environment, stdin=far, stdout=far, stderr=far)
    finally:
        os.close(far)
    return Session(user, run, process, near, True)


def _read(session: Session, wake: Callable[[], None]) -> None:
    """Passes on what a command writes, until its end. A slow reader makes the command wait."""
    process = session.process
    streams = {session.input: "data"} if session.terminal else {}
    for name, stream in (("data", process.stdout), ("error", process.stderr)):
        if stream is not None:
            streams[stream.fileno()] = name
    poll = select.poll()
    for descriptor in streams:
        poll.register(descriptor, select.POLLIN)
    while streams:
        for descriptor, _ in poll.poll():
            try:
                piece = os.read(descriptor, PIECE)
            except OSError:
                piece = b""  # the terminal has no process any more
            if not piece:
                poll.unregister(descriptor)
                del streams[descriptor]
                continue
            session.output.put((streams[descriptor], piece))
            wake()
    process.wait()
    session.output.put(None)
    wake()
