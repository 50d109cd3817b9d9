"""How a run ended, for the person who waited: state, reason, the failing rank's last lines, the numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from muster.cli.output import number, plain, state_word, style, took
from muster.launch.names import in_background
from muster.records.run_view import AttemptOutcome, Explanation, RunView, State
from muster.records.text.failures import who


def show_end(view: RunView, terminal: bool) -> None:
    """Prints the end of a run to stderr, with the last lines of what failed where they were not shown."""
    mark = "✓" if view.state is State.SUCCEEDED else "✗"
    click.echo(f"{mark} {state_word(view.state)}: {plain(view.reason)}", err=True)
    show_warnings(view, err=True)
    if view.failure:
        show_failure(view.failure, _unseen(view.failure, terminal))
    facts = [("time", took(view))]
    if view.ranks is not None:
        facts.insert(0, ("ranks", f"{view.ranks} on {view.nodes} node{'s' if view.nodes != 1 else ''}"))
    facts += numbers(view.result)
    facts.append(("run directory", view.dir))
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        click.echo(f"  {style(name.ljust(width), dim=sys.stderr.isatty())}  {plain(value)}", err=True)


def show_warnings(view: RunView, err: bool) -> None:
    for warning in view.warnings:
        click.echo(f"{style('! warning', fg='yellow')}: {plain(warning)}", err=err)


def show_retry(attempts: Sequence[AttemptOutcome], most: int, terminal: bool) -> None:
    """Prints to stderr why attempts ended that others follow, with the last lines of what failed where they were not shown."""
    for attempt in attempts:
        reason = plain(attempt.reason)
        if attempt.state is State.FAILED:
            click.echo(f"✗ attempt {attempt.attempt} of {most} failed: {reason}; trying again", err=True)
        else:  # by its site, not by the program
            click.echo(f"✗ attempt {attempt.attempt} was cut off: {reason}; starting again", err=True)
        if attempt.failure:
            show_failure(attempt.failure, _unseen(attempt.failure, terminal))


def _unseen(found: Explanation, terminal: bool) -> bool:
    """True if `run` left out what the failed process wrote: a terminal shows rank 0 alone, nothing shows the background."""
    return in_background(found.failure.process) or (terminal and found.failure.rank != 0)


def show_failure(found: Explanation, tail: bool, err: bool = True) -> None:
    if tail and found.tail:
        click.echo(f"  the last lines of {plain(who(found.failure))}:", err=err)
        for line in found.tail:
            click.echo(f"  | {plain(line)}", err=err)
    for other in found.others:
        click.echo(f"  also: {plain(other)}", err=err)


def numbers(result: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The recorded numbers in words; one that is missing says why."""
    shown = []
    for name, entry in (result or {}).items():
        label, unit = ("samples per second", "") if entry["unit"] == "samples/s" else (plain(name), entry["unit"].strip("1"))
        if entry["value"] is not None:
            shown.append((label, f"{number(entry['value'])} {unit}".rstrip()))
        elif name in ("throughput", "accuracy"):
            shown.append((label, f"- ({plain(entry['reason'])})"))
    return shown
