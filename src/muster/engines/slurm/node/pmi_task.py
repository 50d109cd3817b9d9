"""A task that srun started: it stands for a rank that runs elsewhere on its node, and ends as that one does."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from muster.engines.slurm.node import pmi_launcher
from muster.engines.slurm.node.pmi_proxy import NOT_STARTED, is_ours

PASSED = ("PMI", "SLURM", "OMPI_", "MPI_", "PALS_")  # variables by which MPI finds out who it is
OPEN_LIMIT = 30.0  # for a proxy that is being started
PAUSE = 0.1


def stand_for(run: str, attempt: int, argv: list[str]) -> int:
    """Has the PMI proxy of this node start a rank; returns its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):  # the agents end the ranks, and MPI needs their tasks as long as they live
        signal.signal(number, signal.SIG_IGN)
    node = os.environ["SLURMD_NODENAME"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        if not _reached(connection, pmi_launcher.address(run, attempt, node)):
            print(f"muster: {node}: no agent waits here for a rank", file=sys.stderr)
            return NOT_STARTED
        _send(connection, argv)
        said = connection.recv(16)
    return int(said) if said else NOT_STARTED


def _reached(connection: socket.socket, name: str) -> bool:
    """Whether the PMI proxy of this node is at the other end; it may have been started just now."""
    deadline = time.monotonic() + OPEN_LIMIT
    while connection.connect_ex("\0" + name) != 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return is_ours(connection)


def _send(connection: socket.socket, argv: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name.startswith(PASSED)}
    request = json.dumps({"argv": argv, "env": env}).encode()
    files = [int(env["PMI_FD"])] if env.get("PMI_FD", "").isdigit() else []
    socket.send_fds(connection, [request[:1]], files)
    connection.sendall(request[1:])
    connection.shutdown(socket.SHUT_WR)
