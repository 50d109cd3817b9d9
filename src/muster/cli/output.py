"""How things are shown: tables and colours on a terminal, plain lines in a pipe, JSON for machines."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from muster.records.text.units import duration
from muster.records.untrusted import printable

if TYPE_CHECKING:
    from muster.records.ranks import RankView
    from muster.records.run_view import RunView

COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "lost": "red",
    "damaged": "red",
    "stopped": "yellow",
    "stopping": "yellow",
    "running": "cyan",
    "starting": "blue",
    "pending": "magenta",
    "✓": "green",
    "✗": "red",
}
EXIT_CODES = {"succeeded": 0, "failed": 1, "lost": 1, "damaged": 1, "stopped": 130}
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
INDENT = "   "  # of what stands under a row
MAIN_KEYS = ("run", "state", "phase", "reason", "dir", "result", "warnings")


def print_json(data: Any) -> None:
    """One JSON text in UTF-8, whatever the terminal speaks; a byte that was no text stands there as an escape."""
    click.echo(json.dumps(data, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace"))


def show(json: bool, data: Any, text: str) -> None:
    """Prints an answer: data as JSON for programs, or text for people."""
    if json:
        print_json(data)
    else:
        click.echo(text)


def listing(json: bool, data: Any, heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Prints a list: data as JSON for programs, or a table for people, or what to say where it is empty."""
    if json:
        print_json(data)
    elif rows:
        table(heads, rows)
    else:
        click.echo(empty, err=True)


def say(text: str) -> None:
    """Prints a message to stderr, beside the output."""
    click.echo(f"muster: {plain(text)}", err=True)


def brief(view: RunView) -> dict[str, Any]:
    """The object that `run --json` prints."""
    known = view.to_json()
    return {key: known[key] for key in MAIN_KEYS}


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[Sequence[str]] = ()) -> None:
    """Rows under headings, with colours on a terminal, where each row is one line and its last cell gives way.

    `below` has lines that stand under each row.
    """
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(wide, column)) for column in zip(columns, *rows, strict=True)]
    left = left_for_last(columns, rows) if sys.stdout.isatty() else widths[-1]
    click.echo(style(_line(columns, widths, left), bold=True))
    for number, row in enumerate(rows):
        click.echo(_line(row, widths, left))
        for line in below[number] if below else ():
            click.echo(line)


def left_for_last(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The places that a terminal has for the last column of a table."""
    widths = [max(map(wide, column)) for column in zip(columns, *rows, strict=True)]
    return terminal_width() - sum(widths[:-1]) - 2 * len(widths[:-1])


def _line(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    cells = []
    for cell, width in zip(row[:-1], widths, strict=False):
        shown = style(cell, fg=COLOURS[cell]) if cell in COLOURS else cell
        cells.append(shown + " " * (width - wide(cell)))
    return "  ".join([*cells, fit(row[-1], left)]).rstrip()


def under(text: str, **look: Any) -> list[str]:
    """A text under a row of a table, on as many lines as a terminal needs for it."""
    import textwrap

    text = plain(text)
    lines = textwrap.wrap(text, max(20, terminal_width() - len(INDENT))) if sys.stdout.isatty() else [text]
    return [INDENT + style(line, **look) for line in lines]


def terminal_width(descriptor: int = 1) -> int:
    """The width of a terminal in columns; one that does not know it counts as 80."""
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80


def wide(text: str) -> int:
    """How many places a text takes on a terminal."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def style(text: str, **look: Any) -> str:
    """Text with colours, unless the user wants none (see no-color.org)."""
    plain_terminal = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain_terminal else click.style(text, **look)


def state_word(state: str) -> str:
    return style(state, fg=COLOURS.get(state), bold=True)


def headline(view: RunView) -> str:
    """A run on one line: id, state and reason."""
    reason = plain(view.reason)
    return f"{view.run}  {state_word(view.state)}" + (f": {reason}" if reason else "")


def plain(text: str) -> str:
    """Text of others on one line, without what would move the cursor or change colours."""
    return printable(_ESCAPE.sub("", text))


def fit(text: str, width: int) -> str:
    """A text cut to a width, with an ellipsis where something is left out."""
    text = plain(text)
    if wide(text) <= width:
        return text
    text = text[: max(0, width)]  # a letter takes one place at least, and what hosts and ranks say may be long
    while text and wide(text) > width - 1:
        text = text[:-1]
    return text + "…" if width > 0 else ""


def when(moment: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else "-"


def ago(moment: float | None) -> str:
    if not moment:
        return "-"
    seconds = max(0.0, time.time() - moment)
    return duration(seconds if seconds < 60 else seconds - seconds % 60) + " ago" if seconds >= 1 else "now"


def took(view: RunView | RankView) -> str:
    """How long a run or a process took, or has taken so far."""
    if not view.started:
        return "-"
    end = view.ended or (None if view.state.ended else time.time())
    return duration(max(0.0, end - view.started)) if end else "-"


def number(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
