"""Keeping the places of ranks after a failure: a process of each one's environment and directory, beside which people work."""

from __future__ import annotations

import sys
import time

from muster.agent.node.launcher import Launcher
from muster.agent.node.loop import Loop
from muster.plan import NodePlan
from muster.records.ranks import held_place

WAIT = "import signal\nwhile True: signal.pause()"


def hold(plan: NodePlan, launcher: Launcher, loop: Loop, seconds: float) -> None:
    """Keeps the places of a node's ranks for some time, until they are released or everything has to end at once."""
    if loop.killed or loop.channel.announced("release") is not None:
        return
    argv = [sys.executable, "-I", "-S", "-c", WAIT]
    places = []
    for process in (process for process in plan.processes if process.rank >= 0):
        env = launcher.environment(plan, process.env, process.cwd)
        place = launcher.start(held_place(process.name), argv, env, process.cwd)
        if place is not None:
            place.service = True
            places.append(place)
    launcher.note_outer_ids()
    for place in places:
        launcher.events.add("start", process=place.name, rank=-1, pid=place.seen or place.pid)
    loop.channel.publish("holding", {"until": time.time() + seconds})
    loop.until(lambda: loop.killed or loop.channel.announced("release") is not None, seconds)
    launcher.processes.kill_all()
