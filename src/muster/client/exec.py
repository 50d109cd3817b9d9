"""Running a command beside a rank of a server's run: this process' input and output, and its terminal, are the command's."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from muster.client.runs import RemoteRun
from muster.client.server import Rejected, ServerClient
from muster.launch.names import RunNotFound
from muster.tester.errors import TesterError, Unreachable

PIECE = 1 << 16


def run(run: RemoteRun, rank: int, words: Sequence[str], collected: bool = False) -> tuple[int, str]:
    """Runs the command with this process' terminal, or with `collected` output; returns its exit code and that output.

    Raises RunNotFound and Unreachable.
    """
    client, terminal = run.server.client, not collected and os.isatty(0) and os.isatty(1)
    size = os.get_terminal_size(1) if terminal else None
    body = {
        "command": list(words),
        "rank": rank,
        "rows": size.lines if size else None,
        "columns": size.columns if size else None,
    }
    found = bytearray()
    try:
        with client.stream("POST", "runs", run.id, "exec", body=body) as answer, _raw(terminal):
            for line in _objects(answer.iter_bytes()):
                if "session" in line:
                    _Input(client, run.id, line["session"], terminal).start()
                elif "code" in line:
                    code = int(line["code"])
                    return 128 - code if code < 0 else code, found.decode("utf-8", "replace")
                for name, descriptor in (("data", 1), ("error", 2)):
                    data = base64.b64decode(line.get(name, ""))
                    if collected:
                        found += data
                    else:
                        _write(descriptor, data)
    except Rejected as error:
        raise RunNotFound(error.reason) from None
    raise Unreachable(f"the server at {client.url} ended the session; it may have been stopped, try again")


def _objects(pieces: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (json.loads(line) for line in lines if line)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def _raw(terminal: bool) -> Iterator[None]:
    """Has the user's terminal pass every key on: the one beside the rank decides what Ctrl-C means."""
    if not terminal:
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed already stays
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


class _Input:
    """Sends this process' input, and the size of its terminal when that changes."""

    def __init__(self, client: ServerClient, run: str, session: str, terminal: bool) -> None:
        self._client = client
        self._path = ("runs", run, "exec", session)
        self._resized, self._resize = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        if terminal:
            signal.signal(signal.SIGWINCH, lambda number, frame: os.write(self._resize, b"."))

    def start(self) -> None:
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self) -> None:
        with suppress(TesterError, OSError):  # the command has ended, or there is no input
            while True:
                ready = select.select([0, self._resized], [], [])[0]
                if self._resized in ready:
                    os.read(self._resized, PIECE)
                    size = os.get_terminal_size(1)
                    self._client.post(*self._path, data=None, rows=size.lines, columns=size.columns)
                if 0 in ready:
                    data = os.read(0, PIECE)
                    self._send_whole(data)
                    if not data:
                        return

    def _send_whole(self, data: bytes) -> None:
        """Sends input until the command has taken all of it; it may read slowly."""
        while True:
            data = data[self._client.post(*self._path, data=base64.b64encode(data).decode())["taken"] :]
            if not data:
                return
