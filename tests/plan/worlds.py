"""Fixed worlds for the tests of plans: jobs, the facts of their nodes, and where things would lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.job import Job
from muster.plan import Device, NodeInfo, Places, World, assemble

RUN = "resnet-20260101-120000-abcd"
PLACES = Places("/run/nodes/N", "/run/nodes/N/work", "/run/nodes/N/results", "/run/shared", "/run/ssh/N")

# Two nodes with two devices each; the accelerators are not the first of their machines.
DEVICES = {
    "cpu": [[Device("0"), Device("1")], [Device("0"), Device("1")]],
    "nvidia": [[Device("2"), Device("3")], [Device("0"), Device("5")]],
    "ascend": [
        [Device("4", "192.168.10.2"), Device("5", "192.168.20.2")],
        [Device("0", "192.168.10.3"), Device("1", "192.168.20.3")],
    ],
}


def job(**fields: Any) -> Job:
    if "boot" not in fields and "command" not in fields:
        fields = {"boot": "train.py", "python": "/usr/bin/python3", **fields}
    return Job(**{"name": "resnet", "nodes": 2, "devices": 2, **fields})


def facts(
    node: int,
    kind: str = "cpu",
    devices: Sequence[Device] = (),
    address: str = "",
    ports: int = 3,
) -> NodeInfo:
    first = 20000 + 100 * (node % 100)
    held = tuple(range(first, first + ports))
    place = address or f"10.0.0.{node + 1}"
    return NodeInfo(node, f"host-{node}", place, kind, tuple(devices), held, 8, 0, "anna", 1000, 1000, True, (22100, 22101))


def two_nodes(job: Job, kind: str) -> World:
    """The world of a job on two nodes, with what else it needs in parameter servers."""
    workers = [facts(node, kind, devices[: job.devices]) for node, devices in enumerate(DEVICES[kind])]
    servers = [facts(2 + index, kind) for index in range(job.ps)]
    return assemble(job, RUN, 1, [*workers, *servers])


def many_nodes(job: Job, kind: str = "cpu") -> World:
    """The world of a job of any size, every node with an address of its own."""
    devices = [
        [
            Device(str(local), f"172.{node // 250}.{local}.{node % 250}" if kind == "ascend" else "")
            for local in range(job.devices)
        ]
        for node in range(job.nodes)
    ]
    return assemble(
        job,
        RUN,
        1,
        [facts(node, kind, devices[node], f"10.1.{node // 250}.{node % 250}", 1 + job.devices) for node in range(job.nodes)],
    )
