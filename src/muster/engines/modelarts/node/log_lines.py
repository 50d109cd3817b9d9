"""Brings the log of a node, each line once.

The service gives lines behind a place of its own count, and the last of them may still grow: it is written as far as it is
known, and its end only when another line follows. What was brought is read from the file, so that a later supervisor goes on.
"""

from __future__ import annotations

import os
from typing import Callable

from muster.engines.modelarts.node.jobs import LINES, Page
from muster.engines.modelarts.node.journal import START

PIECE = 1 << 20
PageOf = Callable[[str], Page]
Move = Callable[[str, int], None]


class LogLines:
    """`place` is one of the service's count, with `before` lines of the file before it; `move` is told the next one."""

    def __init__(self, path: str, place: str, before: int, move: Move, most: int = LINES) -> None:
        self._path = path
        self._most = most  # lines of a page
        self._place = place
        self._before = before
        self._move = move
        complete, self._rest = _written(path)
        self._skip = max(0, complete - before)  # lines behind the place that the file has

    def bring(self, page_of: PageOf) -> bool:
        """Appends what is new; true if there is more at once."""
        page = page_of(self._place)
        lines = self._behind(page, self._place)
        self._append(lines[self._skip :])
        self._skip = max(self._skip, len(lines) - 1)
        if len(page.lines) < self._most or not page.last or not self._behind(page_of(page.last), page.last):
            return False
        self._write("\n")  # another line follows: the last one is complete
        self._place, self._before, self._skip, self._rest = page.last, self._before + len(lines), 0, ""
        self._move(self._place, self._before)
        return True

    def finish(self) -> None:
        """Ends the last line."""
        if self._rest:
            self._write("\n")
            self._rest = ""

    @staticmethod
    def _behind(page: Page, place: str) -> list[str]:
        """The lines of a page without the one at its place, which some services give as well."""
        return page.lines[1:] if page.first == place and place != START else page.lines

    def _append(self, new: list[str]) -> None:
        if not new:
            return
        first = new[0][len(self._rest) :] if new[0].startswith(self._rest) else ""
        self._write("\n".join([first, *new[1:]]))
        self._rest = new[-1] if len(new) > 1 or len(new[0]) > len(self._rest) else self._rest

    def _write(self, text: str) -> None:
        if text:
            with open(self._path, "ab") as file:
                file.write(text.encode("utf-8", "replace"))


def _written(path: str) -> tuple[int, str]:
    """The complete lines of a file, and what stands behind the last of them."""
    count, rest = 0, b""
    try:
        with open(path, "rb") as file:
            while piece := file.read(PIECE):
                count += piece.count(b"\n")
                rest = (rest + piece).rpartition(b"\n")[2]
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    return count, rest.decode("utf-8", "replace")
