"""A server that is started by the first connection to its port, which the agent had listened on until then.

The server listens on a port of its own and connections are relayed, so that none is refused or lost while it starts: MindSpore
2.0 takes a worker for dead whose first message comes in the moment in which its scheduler opens the port.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys

BACKLOG = 1024
PAUSE = 0.1  # between two tries to reach a server that starts
SETTLE = 2.0  # from when it listens until it surely answers
MOST = 65536

Address = tuple[str, int]


def main(words: list[str]) -> int:
    """Starts the server, relays connections to it and ends as it does."""
    descriptor, server, argv = int(words[0]), (words[1], int(words[2])), words[3:]
    signal.signal(signal.SIGTERM, lambda *_: None)  # the server, in the same process group, has it as well and decides
    try:
        code = asyncio.run(_serve(socket.socket(fileno=descriptor), server, argv))
    except OSError as error:
        print(f"muster: {argv[0]}: {error.strerror}", file=sys.stderr)
        return 127
    if code < 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


async def _serve(listener: socket.socket, server: Address, argv: list[str]) -> int:
    child = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.DEVNULL)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a relayed connection takes two
    relay = asyncio.ensure_future(_relay(listener, server))
    code = await child.wait()
    relay.cancel()
    await asyncio.wait({relay, *asyncio.all_tasks()} - {asyncio.current_task()}, timeout=SETTLE)  # its last words pass
    return code


async def _relay(listener: socket.socket, server: Address) -> None:
    await _await(server)

    async def connect(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            inner, to_inner = await asyncio.open_connection(*server)
        except OSError:
            to_client.close()
            return
        await asyncio.gather(_copy(client, to_inner), _copy(inner, to_client))
        to_client.close()
        to_inner.close()

    async with await asyncio.start_server(connect, sock=listener, backlog=BACKLOG) as relay:
        await relay.serve_forever()


async def _await(server: Address) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection(*server)
        except OSError:
            await asyncio.sleep(PAUSE)
        else:
            writer.close()
            await asyncio.sleep(SETTLE)
            return


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copies until the source ends, and then ends the target: one that has no more to say may still wait for an answer."""
    try:
        while data := await source.read(MOST):
            target.write(data)
            await target.drain()
        target.write_eof()
    except OSError:
        target.close()
