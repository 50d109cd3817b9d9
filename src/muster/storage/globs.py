"""Globs that select names of a tree, as in rsync and .gitignore.

`*` and `?` stay within one part of a name, `**` crosses slashes. A pattern without a slash is tried on every part of a name,
one with a slash on the name from its beginning; either covers all that is below a directory which it matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from re import Pattern


class GlobFilter:
    """Names that some pattern includes (all, when there is none) and no pattern excludes."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self.narrowed = bool(include)
        self._include = [_compiled(pattern) for pattern in include]
        self._exclude = [_compiled(pattern) for pattern in exclude]

    def __contains__(self, name: str) -> bool:
        if any(pattern.match(name) for pattern in self._exclude):
            return False
        return not self._include or any(pattern.match(name) for pattern in self._include)


def _compiled(pattern: str) -> Pattern[str]:
    pattern = pattern.rstrip("/")
    start = r"(?:.*/)?" if "/" not in pattern else ""
    return re.compile(start + _translated(pattern.lstrip("/")) + r"(?:/.*)?\Z", re.DOTALL)


def _translated(pattern: str) -> str:
    text, at = "", 0
    while at < len(pattern):
        piece = next((piece for piece in ("**/", "**", "*", "?", "[") if pattern.startswith(piece, at)), pattern[at])
        if piece == "[" and (end := pattern.find("]", at + 2)) > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\")
            text += f"[{'^' + inner[1:] if inner.startswith('!') else inner}]"
            at = end + 1
            continue
        text += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
        at += len(piece)
    return text
