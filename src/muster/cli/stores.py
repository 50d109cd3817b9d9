"""Shared by the commands for stores: open storage, run a transfer under a progress bar, print its summary."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from muster import config
from muster.cli import output, places
from muster.cli.output import fit, style, terminal_width
from muster.cli.screen import live_line
from muster.records.layout import home
from muster.records.text import units
from muster.storage import Progress, Report, Storage, StorageError, resolve

BAR_WIDTH = 20
SHOWN = 10  # of the files that were left out

include = click.option("--include", multiple=True, metavar="GLOB", help="Only what matches; may be repeated.")
exclude = click.option("--exclude", multiple=True, metavar="GLOB", help="Nothing that matches; may be repeated.")
threads = click.option("--threads", type=click.IntRange(1, 64), metavar="N", help="Files that move at the same time [24].")


def open_storage(server: str | None) -> Storage:
    """Storage with the settings of this user, or that of the server that is chosen."""
    place = home()
    if chosen := places.chosen(server):
        from muster.client.store import settings

        with places.opened(chosen) as opened:
            return Storage(settings(opened))
    known = config.load(place)
    return Storage(resolve(place, known.storage, os.environ, known.addresses))


def run_transfer(move: Callable[..., Report], src: str, dst: str, json: bool) -> int:
    """Runs a transfer with a progress bar on a terminal, and prints what was moved and what was left out.

    `move` takes `progress`, to count in, and `left`, for the errors of what it leaves out.
    """
    begun = time.monotonic()
    left: list[StorageError] = []
    with progress_bar(hidden=json) as progress:
        report = move(progress=progress, left=left)
    seconds = time.monotonic() - begun
    if json:
        counts = {**report._asdict(), "left": list(map(str, left)), "seconds": round(seconds, 3)}
        output.print_json({"source": src, "destination": dst, **counts})
    else:
        click.echo(summary(report, seconds))
    return _left_out(left)


def _left_out(left: list[StorageError]) -> int:
    """Prints what was left out; returns the highest exit code of its errors."""
    if not left:
        return 0
    from muster.cli import errors

    codes = [errors.show(error) for error in left[:SHOWN]]
    shown = f", of which {SHOWN} are shown" if len(left) > SHOWN else ""
    click.echo(
        f"muster: left out {count(len(left))}{shown}; all others are copied and nothing was deleted, "
        "--exclude GLOB leaves out what should be",
        err=True,
    )
    return max(codes)


def summary(report: Report, seconds: float) -> str:
    """The counts of a transfer, on one line."""
    rate = f" ({format_size(report.bytes / seconds)}/s)" if report.bytes else ""
    line = f"{count(report.files)}, {format_size(report.bytes)} in {seconds:.1f} s{rate}, {report.skipped:,} unchanged"
    if report.resumed:
        line += f", {format_size(report.resumed)} from before"
    return f"{line}, {report.deleted:,} deleted" if report.deleted else line


def count(files: int) -> str:
    return f"{files:,} file{'' if files == 1 else 's'}"


def format_size(size: float) -> str:
    """A number of bytes with its unit."""
    return units.size(size, 1000, (" B", " kB", " MB", " GB", " TB"))


@contextmanager
def progress_bar(hidden: bool) -> Iterator[Progress]:
    """Draws a line on the terminal with the progress of a transfer; nothing where there is no terminal."""
    progress = Progress()
    if hidden:
        yield progress
        return
    with live_line(lambda elapsed: _line(progress, elapsed, terminal_width(2))):
        yield progress


def _line(now: Progress, elapsed: float, columns: int) -> str:
    """Bytes, files, rate and the time that is left, as far as it is known."""
    rate = now.bytes / max(elapsed, 0.001)
    more = "" if now.complete else "+"  # the listing goes on
    parts = [
        f"{format_size(now.bytes)} of {format_size(now.total_bytes)}{more}",
        f"{now.files:,} of {now.total_files:,}{more} files",
        f"{format_size(rate)}/s",
    ]
    if now.complete and rate:
        parts.append(f"{units.duration(round((now.total_bytes - now.bytes) / rate))} left")
    done = min(1.0, now.bytes / now.total_bytes) if now.total_bytes else 0.0
    full = round(done * BAR_WIDTH)
    bar = style("█" * full, fg="green") + style("░" * (BAR_WIDTH - full), dim=True)
    return f"{bar} {fit('  '.join(parts), columns - BAR_WIDTH - 2)}"
