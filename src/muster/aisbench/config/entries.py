"""A job file as text: fields with comments that say where each value comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.aisbench.config.found import Found

PLAIN = re.compile(r"[A-Za-z_./][\w./\-]*(://[\w./\-]+)?|[0-9]+(\.[0-9]+)?[A-Za-z]?")
WORDS = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null")  # which YAML would not read as text


@dataclass(frozen=True)
class Entry:
    """One field: a value, words of a list, or fields of its own."""

    name: str
    value: str | int | tuple[str, ...] | list[Entry]
    origin: str = ""


def origin(field: str, at: Found) -> str:
    """Where a value comes from, for a comment."""
    return f"from {field} ({at.place})" if at.line else f"from {field}"


def render(title: Sequence[str], entries: Sequence[Entry], remarks: Sequence[str]) -> str:
    """The whole file: what it is, the fields, and what a reader should know that is no field."""
    lines = [*(f"# {line}".rstrip() for line in title), *_lines(entries, 0)]
    if remarks:
        lines += ["", "# Not carried over:", *(f"#   {remark}" for remark in remarks)]
    return "\n".join(lines) + "\n"


def _lines(entries: Sequence[Entry], depth: int) -> Iterator[str]:
    for entry in entries:
        head = "  " * depth + scalar(entry.name) + ":"
        comment = f"  # {entry.origin}" if entry.origin else ""
        if isinstance(entry.value, str | int):
            yield f"{head} {scalar(entry.value)}{comment}"
        elif isinstance(entry.value, tuple):
            yield f"{head} [{', '.join(map(scalar, entry.value))}]{comment}"
        elif entry.value:
            yield head + comment
            yield from _lines(entry.value, depth + 1)
        else:
            yield f"{head} {{}}{comment}"


def scalar(value: str | int) -> str:
    """A value as YAML reads it back, letter by letter."""
    if isinstance(value, int) or (PLAIN.fullmatch(value) and not WORDS.fullmatch(value)):
        return str(value)
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
