"""The waiting side of a supervisor process that was started before its run was known."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys

from muster.agent.node import environment
from muster.engines.local.node.site import namespaces_refused
from muster.linux import keys
from muster.linux.watch import readable

LIMIT = 1 << 16  # bytes that are read at once
ARGUMENTS = 45  # where the addresses of the command line begin in /proc/PID/stat, behind the name


def await_order(descriptor: int) -> list[str]:
    """Waits for a run and becomes its supervisor: streams, environment and command line are as if it had been started for it.

    Returns the words for the entry of the zipapp. Ends the process where the command that started it goes away.
    """
    data = b""
    namespaces_refused()
    if not readable([descriptor], 0):
        from muster.metrics import final as final  # there is time for what the end of a run needs
    with socket.socket(fileno=descriptor) as connection:
        data, descriptors, _, _ = socket.recv_fds(connection, LIMIT, 3)
        while more := connection.recv(LIMIT):
            data += more
    if not data:
        raise SystemExit(0)
    order = json.loads(data)
    log, keys_file, *follower = descriptors
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    environment.replace({**order["environment"], keys.VARIABLE: str(keys_file)})
    _show_command_line(order["argv"])
    sys.argv = order["argv"][order["argv"].index("supervise") - 1 :]
    return [*sys.argv[1:], *(word for number in follower for word in ("--command", str(number)))]


def _show_command_line(words: list[str]) -> None:
    """Replaces the command line that /proc shows, by which supervisors and agents are found."""
    with open("/proc/self/stat", "rb") as file:
        start, end = map(int, file.read().rpartition(b")")[2].split()[ARGUMENTS : ARGUMENTS + 2])
    shown = b"".join(os.fsencode(word) + b"\0" for word in words)
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)
