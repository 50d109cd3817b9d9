"""The relay on a host: ssh's input and output on one side, the socket of the node's daemon on the other.

It starts the daemon where none listens. The daemon outlives it: a lost connection is a new relay.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import NoReturn

from muster.engines.ssh.node.host.paths import HostPaths

PIECE = 1 << 18


def main(words: list[str]) -> NoReturn:
    root, run_id, node = words
    paths = HostPaths(root, run_id, int(node))
    connection = _connected(paths.socket)
    if connection is None:
        _start_daemon(paths, int(node))
        connection = _connected(paths.socket)
    if connection is None:
        raise SystemExit(f"the daemon of node {node} did not start; see {paths.log}")
    threading.Thread(target=_copy, args=(0, connection.fileno()), daemon=True).start()
    _copy(connection.fileno(), 1)


def _copy(reader: int, writer: int) -> NoReturn:
    """Copies until one side is gone, and with it this process."""
    try:
        while data := os.read(reader, PIECE):
            view = memoryview(data)
            while view:
                view = view[os.write(writer, view) :]
    except OSError:
        pass
    os._exit(0)


def _connected(name: str) -> socket.socket | None:
    """A connection to the daemon, which has to be this user's own."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(name)
        _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user == os.getuid():
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _start_daemon(paths: HostPaths, node: int) -> None:
    """Starts the daemon in a session of its own; returns when it listens."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(reader)
        from muster.engines.ssh.node.host.daemon import be_daemon

        be_daemon(paths, node, writer)
    os.close(writer)
    os.waitpid(child, 0)
    os.read(reader, 1)
    os.close(reader)
