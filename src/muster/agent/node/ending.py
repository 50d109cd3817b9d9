"""How the processes of a node are brought to their end: asked first, and given time."""

from __future__ import annotations

import signal
import time

from muster.agent.node.loop import Loop
from muster.agent.node.processes import Processes

LEFTOVER_PAUSE = 0.1  # between two looks for processes whose end nobody tells


def ask(processes: Processes, ranks_alone: bool, first: bool) -> None:
    """Sends the stop signal. A launcher that got it would kill its ranks, on all nodes: it ends when they have."""
    if ranks_alone:
        told = processes.signal_launched(signal.SIGTERM)
        processes.signal_launched(signal.SIGCONT)
        if told or not first:
            return
    processes.signal_all(signal.SIGTERM)
    processes.signal_all(signal.SIGCONT)


def wait_for_nobody(loop: Loop, deadline: float) -> None:
    """Waits until nothing but services is left, the time is up, or somebody wants an end at once."""
    while loop.processes.others(but_services=True) and time.monotonic() < deadline and "kill" not in loop.meeting.topics:
        loop.pause(min(deadline - time.monotonic(), LEFTOVER_PAUSE))
