"""The storage server of a node: a process beside the ranks that has the keys and does the transfers for them.

It ignores SIGTERM and SIGINT and ends when it is killed: ranks may save checkpoints while a run is being stopped.
"""

from __future__ import annotations

import resource
import signal
import socket
import threading
import time
from typing import NoReturn

from muster.storage import Settings
from muster.storage.moxing.protocol import ClientConnection, Disconnected
from muster.storage.moxing.service import MoxingService

STACK = 1 << 20  # there may be hundreds of threads, and none of them is deep
PAUSE = 0.05


def serve(number: int, settings: Settings) -> NoReturn:
    """Serves every client that connects to a listening socket, each in a thread of its own."""
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    threading.stack_size(STACK)
    service = MoxingService(settings)
    listener = socket.socket(fileno=number)
    while True:
        try:
            connection, _ = listener.accept()
            threading.Thread(target=_serve_client, args=(service, ClientConnection(connection)), daemon=True).start()
        except (OSError, RuntimeError):  # too many descriptors or threads: some will be free soon
            time.sleep(PAUSE)


def _serve_client(service: MoxingService, client: ClientConnection) -> None:
    """Serves one client until it hangs up."""
    try:
        while client.allowed():
            request = client.receive()
            if request is None:
                return
            service.serve(request, client)
    except (Disconnected, ValueError, RecursionError):  # it has ended, or what it sent is not JSON
        return
    finally:
        client.close()
