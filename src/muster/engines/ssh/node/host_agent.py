"""The agent of a node on its host: a child of the node's daemon."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from muster.agent.node.agent import Agent
from muster.agent.sandbox import agent_process
from muster.agent.supervisor.site import Assignment
from muster.channel.directory import DirectoryNode
from muster.devices import DeviceInfo, resolve
from muster.linux import syscalls
from muster.plan import Device, NodeInfo
from muster.records.layout import AttemptDir


def run_agent(
    assignment: Assignment,
    attempt: AttemptDir,
    index: int,
    names: Sequence[tuple[str, str]],
    devices: Sequence[DeviceInfo],
    parent: int,
    deadline: float | None,
) -> int:
    """Carries out an attempt on this node; `parent` is readable when the daemon is gone."""
    daemon, job = os.getppid(), assignment.job
    signal.set_wakeup_fd(-1)  # it is the daemon's
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    folder = attempt.node(index)
    os.makedirs(folder.path, exist_ok=True)
    agent_process.write_to(folder.agent_log)
    os.setsid()
    syscalls.set_name(f"muster-node-{index}")
    seen, keeper = os.getpid(), None
    if agent_process.may_be_contained(assignment, folder):
        syscalls.die_with_parent()
        if os.getppid() != daemon:
            return 1
        seen, keeper = agent_process.enter(assignment, attempt, index, names, agent_process.private_on_machines())
    else:
        syscalls.adopt_orphans()
    name, address = names[index]
    cpus = len(os.sched_getaffinity(0))
    given = tuple(Device(device.id, device.ip) for device in devices)
    cpus = min(cpus, job.cpus or cpus)
    info = NodeInfo(index, name, address, resolve(job.device), given, (), cpus, seen, agent_process.user())
    Agent(assignment, attempt, info, DirectoryNode(attempt, index), keeper, None, parent, deadline).carry_out()
    return 0
