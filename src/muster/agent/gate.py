"""A server that is started by the first connection to its port, which the agent had listened on until then.

The server listens on a port of its own and connections are relayed, so that none is refused or lost while it starts: MindSpore
2.0 takes a worker for dead whose first message comes in the moment in which its scheduler opens the port.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import List, Tuple

PAUSE = 0.1  # between two tries to reach a server that starts
SETTLE = 2.0  # from when it listens until it surely answers
MOST = 65536

Address = Tuple[str, int]


def main(descriptor: int, server: Address, argv: List[str]) -> int:
    """Starts the server, relays connections to it and ends as it does."""
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(True)
    signal.signal(signal.SIGTERM, lambda *_: None)  # the server, in the same process group, has it as well and decides
    try:
        child = subprocess.Popen(argv)
    except OSError as error:
        print("muster: %s: %s" % (argv[0], error.strerror), file=sys.stderr)
        return 127
    threading.Thread(target=_relay, args=(listener, server), daemon=True).start()
    code = child.wait()
    if code < 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _relay(listener: socket.socket, server: Address) -> None:
    _await(server)
    while True:
        client, _ = listener.accept()
        try:
            behind = socket.create_connection(server)
        except OSError:
            client.close()
            continue
        for source, target in ((client, behind), (behind, client)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _await(server: Address) -> None:
    while True:
        try:
            socket.create_connection(server).close()
        except OSError:
            time.sleep(PAUSE)
        else:
            time.sleep(SETTLE)
            return


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copies until one side closes, and closes both: whoever is left learns that the other is gone."""
    try:
        while True:
            data = source.recv(MOST)
            if not data:
                break
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other direction was first
