"""The agent of a node on its host: a child of the node's daemon."""

from __future__ import annotations

import os
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
    folder = attempt.node(index)
    agent_process.begin(folder, index)
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
