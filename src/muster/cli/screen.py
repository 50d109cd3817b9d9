"""What `run` shows while a job runs: a live line over rank 0's output, or prefixed lines in a pipe.

The live line is own code: drawing it through rich would delay the first line of output by its import, and would change
the bytes that a rank wrote.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, BinaryIO, TextIO

import click

from muster.cli.output import state_word
from muster.launch.follow import Chunk

DRAW_PAUSE = 0.1
SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Lines:
    """Every process' lines, each with its rank in front; in order per rank."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rest: dict[str, bytes] = {}

    def show(self, chunk: Chunk) -> None:
        name = chunk.process.removeprefix("rank-").encode()
        data = self._rest.pop(chunk.process, b"") + chunk.data
        lines = data.split(b"\n")
        if lines[-1]:
            self._rest[chunk.process] = lines[-1]
        if len(lines) > 1:
            prefix = b"[" + name + b"] "
            self._stream.write(b"".join([prefix + line + b"\n" for line in lines[:-1]]))
            self._stream.flush()

    def close(self) -> None:
        """Shows what a process wrote without ending the line."""
        for process, rest in self._rest.items():
            self._stream.write(b"[" + process.removeprefix("rank-").encode() + b"] " + rest + b"\n")
        self._stream.flush()
        self._rest = {}


class Live:
    """Rank 0's output as it is, with a line below it that says how the run stands."""

    def __init__(self, terminal: TextIO = sys.stdout) -> None:
        self._terminal = terminal
        self._begun = time.monotonic()
        self._open = False  # rank 0 is in the middle of a line
        self._drawn = False
        self._turn = 0
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether the live line should be drawn again; after every piece of output would be too often."""
        return not self._open and time.monotonic() >= self._next

    def show(self, chunk: Chunk) -> None:
        if chunk.process not in ("rank-0", "setup"):
            return
        self.clear()
        self._terminal.flush()
        self._terminal.buffer.write(chunk.data)
        self._terminal.buffer.flush()
        self._open = not chunk.data.endswith(b"\n")

    def draw(self, view: dict[str, Any]) -> None:
        self._turn += 1
        self._next = time.monotonic() + DRAW_PAUSE
        elapsed = int(time.monotonic() - self._begun)
        per_node = view["ranks"] // max(1, view["nodes"])
        up = min(view["ranks"], view["up"] * per_node) if view["state"] != "running" else view["ranks"]
        parts = [f"{up}/{view['ranks']} ranks", f"{elapsed // 60}:{elapsed % 60:02d}", view["run"]]
        if view["attempt"] > 1:
            parts.insert(0, f"attempt {view['attempt']}")
        if view["reason"]:
            parts.append(view["reason"])
        text = "  ".join(parts)[: max(10, shutil.get_terminal_size().columns - 16)]
        mark = SPIN[self._turn % len(SPIN)]
        self._terminal.write(f"\r\x1b[2K{mark} {state_word(view['state'])}  {click.style(text, dim=True)}")
        self._terminal.flush()
        self._drawn = True

    def clear(self) -> None:
        if self._drawn:
            self._terminal.write("\r\x1b[2K")
            self._drawn = False

    def close(self) -> None:
        self.clear()
        if self._open:
            self._terminal.write("\n")
        self._terminal.flush()
