"""Renders a job file as YAML, with a comment behind each field that says where its value comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.aisbench.config.values import ConfigValue

PLAIN = re.compile(r"[A-Za-z_./][\w./\-]*(://[\w./\-]+)?|[0-9]+(\.[0-9]+)?[A-Za-z]?")
WORDS = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null")  # YAML does not read these as text


@dataclass(frozen=True)
class JobField:
    """One field: a value, a list of words, or nested fields."""

    name: str
    value: str | int | tuple[str, ...] | list[JobField]
    origin: str = ""


def origin(field: str, at: ConfigValue) -> str:
    """Returns the comment that says where a value comes from."""
    return f"from {field} ({at.location})" if at.line else f"from {field}"


def render(title: Sequence[str], fields: Sequence[JobField], remarks: Sequence[str]) -> str:
    """Renders the whole file: title, fields, and remarks about what was not carried over."""
    lines = [*(f"# {line}".rstrip() for line in title), *_lines(fields, 0)]
    if remarks:
        lines += ["", "# Not carried over:", *(f"#   {remark}" for remark in remarks)]
    return "\n".join(lines) + "\n"


def _lines(fields: Sequence[JobField], depth: int) -> Iterator[str]:
    for field in fields:
        head = "  " * depth + scalar(field.name) + ":"
        comment = f"  # {field.origin}" if field.origin else ""
        if isinstance(field.value, str | int):
            yield f"{head} {scalar(field.value)}{comment}"
        elif isinstance(field.value, tuple):
            yield f"{head} [{', '.join(map(scalar, field.value))}]{comment}"
        elif field.value:
            yield head + comment
            yield from _lines(field.value, depth + 1)
        else:
            yield f"{head} {{}}{comment}"


def scalar(value: str | int) -> str:
    """Writes a value so that YAML reads the same value back."""
    if isinstance(value, int) or (PLAIN.fullmatch(value) and not WORDS.fullmatch(value)):
        return str(value)
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
