"""What a node has to do with stores: a server that ranks ask over a local socket, inputs before the start, outputs after it.

All of it is done by processes of their own, with Muster's Python: the agent stays quick, and no key enters a rank.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from muster.plan import NodePlan, Transfer
from muster.runs.layout import NodeDir

PERIOD = 30.0  # seconds between two uploads of what a program writes
BACKLOG = 1024


@dataclass(frozen=True)
class Tools:
    """What the agent's helpers are started with."""

    python: str  # Muster's own, which can import what stores need
    archive: str  # the packed agent

    @property
    def shims(self) -> str:
        """What jobs may import of Muster: Python looks into an archive as into a directory."""
        return self.archive + "/muster/shims"

    def argv(self, *words: str) -> List[str]:
        return [self.python, "-I", self.archive, "storage", *words]


class Door:
    """The socket at which ranks ask for storage; a server is started when the first one knocks."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        name = "muster-" + os.urandom(12).hex()
        self._socket.bind("\0" + name)  # no place on a disk: paths are limited to 108 bytes
        self._socket.listen(BACKLOG)
        self.variables = {"MUSTER_SOCKET": "@" + name}

    def fileno(self) -> int:
        return self._socket.fileno()


def fetch(tools: Tools, plan: NodePlan) -> List[str]:
    """The argv that brings the inputs of a node, or nothing where all of them are at hand."""
    words = [word for entry in plan.inputs if not entry.local for word in (entry.url, entry.path)]
    return tools.argv("copy", *words) if words else []


def save(tools: Tools, outputs: Sequence[Transfer]) -> List[str]:
    """The argv that takes outputs to their URLs."""
    return tools.argv("copy", *[word for entry in outputs for word in (entry.path, entry.url)])


def gather_logs(folder: NodeDir, log: Dict[str, Tuple[str, ...]]) -> str:
    """Puts logs together as a platform names them; returns the directory that holds them."""
    target = folder.path + "/log"
    os.makedirs(target, exist_ok=True)
    for name, processes in log.items():
        with open("%s/%s" % (target, name), "wb") as whole:
            for process in processes:
                _add(folder.log(process), whole.fileno())
    return target


def _add(path: str, writer: int) -> None:
    try:
        reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # it was never started
    try:
        while os.sendfile(writer, reader, None, 1 << 30):
            pass
    finally:
        os.close(reader)
