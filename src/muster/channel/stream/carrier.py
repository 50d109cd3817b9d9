"""Carries connections to ports of a node over one byte stream: the loop of both ends, and the program on the node.

The stream is one of its own, apart from that of the run: a page that loads slowly must not hold up what nodes say.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress

from muster.channel.stream.frames import Broken, Parser
from muster.channel.stream.tunnel import Tunnel
from muster.linux import listeners

PIECE = 1 << 18
HELLO = b"\nMUSTER-CARRIER\n"  # before it, what starts the program may have written anything


def main(words: list[str]) -> int:
    """Connects whoever is at the other end of standard input and output to ports at which programs of this user listen."""
    os.write(1, HELLO)
    users = frozenset((os.getuid(),))
    carry(Tunnel(dial=lambda port: listeners.connect(port, users)), 0, 1)
    return 0


def carry(
    tunnel: Tunnel,
    reader: int,
    writer: int,
    early: bytes = b"",
    wake: int | None = None,
    woken: Callable[[], bool] = lambda: True,
) -> None:
    """Carries connections until the stream ends, or `woken` returns false after `wake` became readable."""
    parser, out = Parser(), memoryview(b"")
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    try:
        _take(tunnel, parser, early)
        while True:
            poll = select.poll()
            tunnel.act()
            out = out or memoryview(tunnel.next())
            poll.register(reader, select.POLLIN)
            if out:
                poll.register(writer, select.POLLOUT)
            if wake is not None:
                poll.register(wake, select.POLLIN)
            tunnel.register(poll)
            ready = dict(poll.poll())
            if wake in ready and not woken():
                return
            if reader in ready and not _take(tunnel, parser, None, reader):
                return
            while out:
                written = _write(writer, out)
                if not written:
                    break
                out = out[written:] or memoryview(tunnel.next())
    except (Broken, OSError):
        pass  # the other end is gone, or no carrier
    finally:
        tunnel.close()


def _take(tunnel: Tunnel, parser: Parser, data: bytes | None, reader: int = -1) -> bool:
    """Takes in frames; false at the end of the stream."""
    if data is None:
        with suppress(BlockingIOError):
            data = os.read(reader, PIECE)
        if data is None:
            return True
        if not data:
            return False
    for frame in parser.feed(data):
        tunnel.take(frame)
    return True


def _write(writer: int, data: memoryview) -> int:
    try:
        return os.write(writer, data)
    except BlockingIOError:
        return 0
