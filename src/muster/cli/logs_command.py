"""`muster logs`: show or follow what the processes of a run wrote."""

from __future__ import annotations

import json as json_format
import os
import sys
from typing import Protocol

import click

from muster.cli.options import as_json, run_argument
from muster.cli.screen import Lines
from muster.launch import api
from muster.launch.follow import Chunk, Follower
from muster.runs.layout import AttemptDir
from muster.runs.logs import tail_offset


class Shows(Protocol):
    def show(self, chunk: Chunk) -> None: ...
    def close(self) -> None: ...


@click.command("logs")
@run_argument()
@click.option("--rank", type=int, help="The log of one rank; rank 0 unless said otherwise.")
@click.option("--process", metavar="NAME", help="The log of a process by its name, such as scheduler or setup.")
@click.option("--all", "everybody", is_flag=True, help="All processes, each line with its rank in front.")
@click.option("--attempt", type=int, help="The attempt to show; the last one unless said otherwise.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Start with the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.option("--from", "start", type=click.IntRange(0), metavar="OFFSET", help="Start at this byte of the log.")
@as_json
def command(
    run: str,
    rank: int | None,
    process: str | None,
    everybody: bool,
    attempt: int | None,
    tail: int | None,
    follow: bool,
    start: int | None,
    json: bool,
) -> int:
    """Show or follow the logs of a run.

    One log is shown byte by byte as it was written. After an interruption `--from` goes on where it stopped.

    \b
    Examples:
      muster logs last
      muster logs last --rank 3 --tail 20
      muster logs last --all --follow
    """
    if sum((rank is not None, process is not None, everybody)) > 1:
        raise click.UsageError("--rank, --process and --all exclude each other")
    if start is not None and (everybody or tail is not None):
        raise click.UsageError("--from goes with one log, and without --tail")
    found = api.get(run)
    name = None if everybody else process or f"rank-{rank or 0}"
    _check_known(found, name, attempt, follow)
    wanted = attempt or (None if follow else (found.dir.attempt_numbers() or [0])[-1])
    follower = Follower(
        found.dir,
        lambda number, log: (name is None or log == name) and wanted in (None, number),
        lambda path: start or 0 if tail is None else tail_offset(path, tail),
    )
    shown: Shows = Objects() if json else Lines(sys.stdout.buffer) if everybody else Bytes()
    last: Chunk | None = None
    try:
        for chunk in found.follow(follower) if follow else follower.chunks():
            if chunk is not None:
                shown.show(chunk)
                last = chunk
    except KeyboardInterrupt:
        if last is not None and not everybody:
            click.echo(f"muster: interrupted; `--from {last.offset}` goes on from here", err=True)
        return 130
    finally:
        shown.close()
        follower.close()
    return 0


class Bytes:
    """One log, exactly as it was written."""

    def show(self, chunk: Chunk) -> None:
        view = memoryview(chunk.data)
        while view:
            view = view[os.write(1, view) :]

    def close(self) -> None:
        pass


class Objects:
    """One JSON object per piece; bytes that are not UTF-8 are replaced."""

    def show(self, chunk: Chunk) -> None:
        text = chunk.data.decode("utf-8", "replace")
        click.echo(
            json_format.dumps(
                {
                    "attempt": chunk.attempt,
                    "process": chunk.process,
                    "offset": chunk.offset - len(chunk.data),
                    "text": text,
                }
            )
        )

    def close(self) -> None:
        pass


def _check_known(run: api.Run, name: str | None, attempt: int | None, follow: bool) -> None:
    """Refuses what this run does not have, with what it has."""
    numbers = run.dir.attempt_numbers()
    if attempt is not None and attempt not in numbers:
        raise api.RunNotFound(f"{run.id} has no attempt {attempt}; it has {', '.join(map(str, numbers)) or 'none yet'}")
    job = run.job
    known = {f"rank-{rank}" for rank in range(job.ranks)} | {"setup", "scheduler"} | {f"ps-{index}" for index in range(job.ps)}
    logs = set().union(*(_logs(run.dir.attempt(number)) for number in numbers)) if numbers else set()
    if name is not None and name not in known | logs:
        shown = f"ranks 0 to {job.ranks - 1}" if name.startswith("rank-") else ", ".join(sorted(logs)[:10]) or "none yet"
        raise api.RunNotFound(f"{run.id} has no process `{name}`; it has {shown}")
    if name is not None and name not in logs and not follow:
        raise api.RunNotFound(f"{run.id} has no log of `{name}`: it was not started" + (" yet" if not run.ended else ""))


def _logs(attempt: AttemptDir) -> set[str]:
    found: set[str] = set()
    for index in attempt.node_indexes():
        folder = attempt.node(index).logs
        found.update(name.removesuffix(".log") for name in (os.listdir(folder) if os.path.isdir(folder) else []))
    return found
