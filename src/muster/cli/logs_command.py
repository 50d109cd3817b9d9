"""`muster logs`: show or follow what the processes of a run wrote."""

from __future__ import annotations

import codecs
import json as json_format
import os
import select
import signal
import sys
from dataclasses import dataclass, field

import click

from muster.cli import places
from muster.cli.options import as_json, run_argument
from muster.cli.screen import Lines
from muster.launch import names
from muster.launch.follow import AnyLog, Chunk


@click.command("logs")
@run_argument()
@click.option("--rank", type=int, help="The log of one rank; rank 0 unless said otherwise.")
@click.option("--process", metavar="NAME", help="The log of a process by its name, such as scheduler, ps-0 or setup-1.")
@click.option("--all", "everybody", is_flag=True, help="All processes; `run` leaves some out. Each line has its rank in front.")
@click.option("--attempt", type=int, help="One attempt; else the last, and with --follow all of them.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Start with the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.option("--from", "skipped", type=click.IntRange(0), metavar="OFFSET", help="Leave out this many bytes.")
@places.server_option
@as_json
def command(
    run: str,
    rank: int | None,
    process: str | None,
    everybody: bool,
    attempt: int | None,
    tail: int | None,
    follow: bool,
    skipped: int | None,
    server: str | None,
    json: bool,
) -> int:
    """Show or follow the logs of a run.

    One log is shown byte by byte as it was written. When that is interrupted, it says with which --from the same command
    goes on.

    \b
    Examples:
      muster logs last
      muster logs last --rank 3 --tail 20
      muster logs last --all --follow
      muster logs last --follow --from 51200
    """
    if sum((rank is not None, process is not None, everybody)) > 1:
        raise click.UsageError("--rank, --process and --all exclude each other")
    if skipped is not None and (everybody or tail is not None):
        raise click.UsageError("--from goes with one log, and without --tail")
    found = places.find(run, server)
    name = None if everybody else found.log_name(rank, process) or "rank-0"
    if attempt is not None:
        names.attempt_number(found.id, found.attempt_numbers(), attempt)
    if (everybody or follow or name not in found.log_names()) and found.ended and (gone := found.deleted_logs()):
        raise names.RunNotFound(gone)
    if name is not None and not follow and name not in found.log_names():
        raise names.RunNotFound(f"{found.id} has no log of `{name}`: it was not started" + (" yet" if not found.ended else ""))
    last = attempt or (found.attempt_numbers() or [1])[-1]
    start = Start(skipped or 0, tail, last)
    follower = found.follower(
        lambda number, log: name in (None, log) and (number == last or (follow and not attempt)),
        attempt,
        start,
        name,
    )
    shown: Objects | Lines | Bytes = Objects() if json else Lines(sys.stdout.buffer) if everybody else Bytes()
    with follower:
        try:
            for chunk in found.pieces(follower) if follow else follower.chunks():
                if chunk is not None:
                    shown.show(chunk)
        except KeyboardInterrupt:
            if isinstance(shown, Bytes) and shown.attempt:
                position = start.before(shown.attempt) + shown.offset
                click.echo(f"muster: interrupted; the same with `--from {position}` goes on from here", err=True)
            return 130
        finally:
            shown.close()
    return 0


@dataclass
class Start:
    """Where to begin in each log: behind the bytes or before the lines that were asked for.

    Bytes are counted over all attempts that are shown, one behind the other.
    """

    skipped: int
    tail: int | None
    last: int  # what attempts after this one write is new
    logs: list[AnyLog] = field(default_factory=list)

    def __call__(self, log: AnyLog) -> int:
        self.logs.append(log)
        if self.tail is None or log.attempt > self.last:
            return max(0, self.skipped - self.before(log.attempt)) if self.skipped else 0
        return log.tail_offset(self.tail) if log.attempt == self.last else log.size()

    def before(self, attempt: int) -> int:
        """The bytes of the attempts before this one, which write no more."""
        return sum(log.size() for log in self.logs if log.attempt < attempt)


class Bytes:
    """One log, exactly as it was written. `offset` is where in the log of `attempt` the shown bytes end."""

    def __init__(self) -> None:
        self.attempt = 0
        self.offset = 0

    def show(self, chunk: Chunk) -> None:
        self.attempt = chunk.attempt
        self.offset = chunk.offset - len(chunk.data)
        view = memoryview(chunk.data)
        while view:
            select.select([], [1], [])  # an interrupt comes here, and not between a write and its being counted
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                count = os.write(1, view[: select.PIPE_BUF])
                self.offset += count
                view = view[count:]
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def close(self) -> None:
        pass


class Objects:
    """One JSON object per piece; bytes that are not UTF-8 are replaced, letters are never cut in two."""

    def __init__(self) -> None:
        self._decoders: dict[tuple[int, str], codecs.IncrementalDecoder] = {}
        self._ends: dict[tuple[int, str], int] = {}

    def show(self, chunk: Chunk) -> None:
        log = (chunk.attempt, chunk.process)
        if log not in self._decoders:
            self._decoders[log] = codecs.getincrementaldecoder("utf-8")("replace")
        self._ends[log] = chunk.offset
        self._decode(log, chunk.data)

    def close(self) -> None:
        for log in self._decoders:
            self._decode(log, b"", final=True)

    def _decode(self, log: tuple[int, str], data: bytes, final: bool = False) -> None:
        decoder = self._decoders[log]
        kept, _ = decoder.getstate()
        text = decoder.decode(data, final)
        if text:
            offset = self._ends[log] - len(data) - len(kept)
            click.echo(json_format.dumps({"attempt": log[0], "process": log[1], "offset": offset, "text": text}))
