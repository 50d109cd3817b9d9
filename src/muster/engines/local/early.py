"""A supervisor process that is started before its run is known: it imports its code while the job is read and checked.

Its other side is `node/early.py`. This module is imported before all others: it needs next to nothing.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from muster.dataclass import dataclass
from muster.linux.held_signals import held
from muster.linux.spawn import spawn

ROOM = 4096  # bytes of its command line, which becomes that of the run
# The variables that Python needs to start, and those by which processes of a home or of an outer run are found. All others come
# with the run: what a process is started with can be read through /proc for as long as it lives.
_NEEDED = ("PATH", "HOME", "LANG", "TZ", "MUSTER_HOME", "MUSTER_RUN")


@dataclass(frozen=True)
class _Waiting:
    program: list[str]  # Python, its options and the packed agent
    process: int
    socket: socket.socket


_waiting: list[_Waiting] = []


def program(agent: str) -> list[str]:
    """The words that start a packed agent. -S: it needs nothing of a virtual environment."""
    return [os.path.realpath(sys.executable), "-I", "-S", agent]


def start(agent: str) -> None:
    """Starts a process that waits for the next run that this packed agent is to supervise."""
    ours, its = socket.socketpair()
    wanted = {name: value for name, value in os.environ.items() if name in _NEEDED or name.startswith(("LC_", "LD_"))}
    with its, held():
        argv = [*program(agent), "await", str(its.fileno()), " " * ROOM]
        process = spawn(argv, wanted, subprocess.DEVNULL, (its.fileno(),))  # it becomes a supervisor, or ends with this process
    _waiting.append(_Waiting(program(agent), process, ours))


def hand_over(argv: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int]) -> int | None:
    """Gives a run to the process that waits: its log, the file with its keys, and the descriptor of its follower, if any.

    Returns the id of the process, or None where none waits for this program.
    """
    while _waiting:
        waiting = _waiting.pop()
        with waiting.socket, suppress(OSError):  # it may have been killed
            if waiting.program == [*argv[: len(waiting.program)]] and sum(len(os.fsencode(word)) + 1 for word in argv) < ROOM:
                order = json.dumps({"argv": [*argv], "environment": dict(environment)}).encode()
                sent = socket.send_fds(waiting.socket, [order], descriptors)
                waiting.socket.sendall(order[sent:])
                return waiting.process
    return None
