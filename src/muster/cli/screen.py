"""The display of `run` while a job runs: a live line over rank 0's output, or prefixed lines in a pipe.

Own code, a few lines of it: a library for terminals would delay the first line of output by its import, and would change the
bytes that a rank wrote.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, TextIO

from muster.cli.output import fit, plain, state_word, style, terminal_width

if TYPE_CHECKING:
    from muster.launch.follow import Chunk
    from muster.records.run_view import RunView

CLEAR = "\r\x1b[2K"
DRAW_PAUSE = 0.1
SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@contextmanager
def live_line(line: Callable[[float], str]) -> Iterator[None]:
    """Draws a line on the terminal again and again, given the seconds since the start; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended, begun = threading.Event(), time.monotonic()

    def draw() -> None:
        while not ended.wait(DRAW_PAUSE):
            sys.stderr.write(CLEAR + line(time.monotonic() - begun))
            sys.stderr.flush()

    drawer = threading.Thread(target=draw, daemon=True)
    drawer.start()
    try:
        yield
    finally:
        ended.set()
        drawer.join()
        sys.stderr.write(CLEAR)
        sys.stderr.flush()


class Lines:
    """Every process' lines, each with its rank in front; in order per rank."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rest: dict[str, list[bytes]] = {}  # pieces of lines that have not ended yet

    def show(self, chunk: Chunk) -> None:
        head, newline, rest = chunk.data.rpartition(b"\n")
        if newline:
            lines = b"".join([*self._rest.pop(chunk.process, []), head]).split(b"\n")
            prefix = _prefix(chunk.process)
            self._stream.write(b"".join([prefix + line + b"\n" for line in lines]))
            self._stream.flush()
        if rest:
            self._rest.setdefault(chunk.process, []).append(rest)

    def interlude(self) -> None:
        """Shows what a process wrote without ending the line."""
        for process, rest in self._rest.items():
            self._stream.write(_prefix(process) + b"".join(rest) + b"\n")
        self._stream.flush()
        self._rest = {}

    close = interlude


def _prefix(process: str) -> bytes:
    return b"[" + plain(process.removeprefix("rank-")).encode() + b"] "


class Live:
    """Rank 0's output as it is, with a line below it that says how the run stands."""

    def __init__(self, terminal: TextIO = sys.stdout) -> None:
        self._terminal = terminal
        self._begun = time.monotonic()
        self._open = False  # rank 0 is in the middle of a line
        self._line = ""  # what stands below the output
        self._turn = 0
        self._next = 0.0

    @property
    def due(self) -> bool:
        """True if the live line should be drawn again; after every piece of output would be too often."""
        return not self._open and time.monotonic() >= self._next

    def show(self, chunk: Chunk) -> None:
        if chunk.process not in ("rank-0", "main", "setup-0"):
            return
        self._open = not chunk.data.endswith(b"\n")
        before = CLEAR if self._line else ""
        self._line = "" if self._open else self._line
        self._terminal.buffer.write(before.encode() + chunk.data + self._line.encode())
        self._terminal.buffer.flush()

    def draw(self, view: RunView) -> None:
        from muster.records.run_view import State  # here, because the progress of a transfer does without

        self._turn += 1
        self._next = time.monotonic() + DRAW_PAUSE
        elapsed = int(time.monotonic() - self._begun)
        ranks = view.ranks or 0  # not known of a damaged run
        up = min(ranks, view.up * (ranks // max(1, view.nodes or 1))) if view.state is not State.RUNNING else ranks
        parts = [f"{up}/{ranks} ranks", f"{elapsed // 60}:{elapsed % 60:02d}", view.run]
        if view.attempt > 1:
            parts.insert(0, f"attempt {view.attempt}")
        if view.reason:
            parts.append(view.reason)
        text = fit("  ".join(parts), terminal_width() - len(view.state) - 5)
        mark = SPIN[self._turn % len(SPIN)]
        self._line = f"{mark} {state_word(view.state)}  {style(text, dim=True)}"
        self._terminal.write(CLEAR + self._line)
        self._terminal.flush()

    def interlude(self) -> None:
        """Leaves the terminal at the beginning of an empty line, for others to write on."""
        self._terminal.write(CLEAR if self._line else "\n" if self._open else "")
        self._terminal.flush()
        self._line, self._open = "", False

    close = interlude
