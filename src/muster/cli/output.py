"""How things are shown: tables and colours on a terminal, plain lines in a pipe, JSON for machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from muster.runs.explain import duration

COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "lost": "red",
    "stopped": "yellow",
    "stopping": "yellow",
    "running": "cyan",
    "starting": "blue",
    "pending": "magenta",
}
EXIT_CODES = {"succeeded": 0, "failed": 1, "lost": 1, "stopped": 130}
MAIN_KEYS = ("run", "state", "phase", "reason", "dir", "result")


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, ensure_ascii=False, indent=2))


def brief(view: dict[str, Any]) -> dict[str, Any]:
    """The object that `run --json` prints."""
    return {key: view[key] for key in MAIN_KEYS}


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings: drawn on a terminal, aligned text in a pipe."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for row in rows:
            drawn.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
        Console().print(drawn)
        return
    widths = [max(len(str(cell)) for cell in column) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def state_word(state: str) -> str:
    return click.style(state, fg=COLOURS.get(state), bold=True)


def when(moment: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else "-"


def ago(moment: float | None) -> str:
    if not moment:
        return "-"
    seconds = max(0.0, time.time() - moment)
    return duration(seconds if seconds < 60 else seconds - seconds % 60) + " ago" if seconds >= 1 else "now"


def took(view: dict[str, Any]) -> str:
    """How long a run took, or has taken so far."""
    if not view["started"]:
        return "-"
    end = view["ended"] or (time.time() if view["state"] not in EXIT_CODES else None)
    return duration(max(0.0, end - view["started"])) if end else "-"


def number(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
