"""Starts a served store: a process beside the one that passes requests on to it, and that ends with it."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Callable, Sequence

from muster.storage.served.objects import Root

BACKLOG = 128
MOST_FILES = 65536  # descriptors of the process that this one was forked from
STACK = 1 << 20  # there may be hundreds of threads, and none of them is deep


def start(home: str, roots: Sequence[Root], before: Callable[[], None]) -> tuple[str, int]:
    """Starts the server; returns the name of its abstract socket and its process id. `before` is called in the new process."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    name = "muster-store-" + os.urandom(12).hex()
    listener.bind(f"\0{name}")
    listener.listen(BACKLOG)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.closerange(3, listener.fileno())
            os.closerange(listener.fileno() + 1, MOST_FILES)
            before()
            if os.getppid() == parent:
                _serve(listener, home, roots)
        finally:
            os._exit(1)
    listener.close()
    return name, pid


def _serve(listener: socket.socket, home: str, roots: Sequence[Root]) -> None:
    from muster.storage.served.objects import Objects
    from muster.storage.served.parts import Parts
    from muster.storage.served.server import Server

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    threading.stack_size(STACK)
    Server(listener, Objects(home, roots), Parts(f"{home}/parts")).serve_forever()
