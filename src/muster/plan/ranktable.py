"""HCCL rank tables, in the three formats that Ascend software of different ages reads. All values are strings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from muster.dataclass import dataclass
from muster.plan.world import Device, Node, World

FORMATS = ("lab", "pods", "1.0")


@dataclass(frozen=True)
class Server:
    id: str  # its address, or a name that no other server has
    devices: tuple[Device, ...]
    pod: str = ""


def servers(world: World, pods: Mapping[int, str] | None = None) -> list[Server]:
    """The servers of a world, with the names of their pods; nodes that share an address get their number in the id."""
    unique = len({node.address for node in world.workers}) == len(world.workers)
    return [
        Server(
            node.address if unique else f"{node.address}-{node.index}",
            tuple(Device(device.id, device.ip or node.address) for device in node.info.devices),
            pods[node.index] if pods else pod(world, node),
        )
        for node in world.workers
    ]


def pod(world: World, node: Node) -> str:
    """The name by which a node finds itself in the format grouped by pod."""
    return f"{world.run}-{node.index}"


def render(format: str, servers: Sequence[Server], group: str = "") -> str:
    """The table as the text of a file; the format grouped by pod has a name for its group."""
    table = pods(servers, group) if format == "pods" else {"lab": lab, "1.0": version_1}[format](servers)
    return json.dumps(table, indent=1) + "\n"


def lab(servers: Sequence[Server]) -> dict[str, Any]:
    """The oldest format, which MindSpore 0.x reads: one instance per device."""
    instances: list[dict[str, Any]] = []
    for server in servers:
        for device in server.devices:
            instances.append({"devices": [_device(device)], "rank_id": str(len(instances)), "server_id": server.id})
    count = str(len(instances))
    ports = sorted({int(device.id) for server in servers for device in server.devices})
    return {
        "board_id": "0x0020",
        "chip_info": "910",
        "deploy_mode": "lab",
        "group_count": "1",
        "group_list": [
            {
                "device_num": count,
                "server_num": str(len(servers)),
                "group_name": "",
                "instance_count": count,
                "instance_list": instances,
            }
        ],
        "para_plane_nic_location": "device",
        "para_plane_nic_name": [f"eth{port}" for port in ports],
        "para_plane_nic_num": str(len(ports)),
        "status": "completed",
    }


def pods(servers: Sequence[Server], group: str = "") -> dict[str, Any]:
    """The format grouped by pod, which TensorFlow reads: no ranks, a process finds itself by pod and device."""
    instances = [
        {
            "devices": [_device(device) for device in server.devices],
            "pod_name": server.pod or server.id,
            "server_id": server.id,
        }
        for server in servers
    ]
    return {
        "group_count": "1",
        "group_list": [
            {
                "device_count": str(sum(len(server.devices) for server in servers)),
                "group_name": group,
                "instance_count": str(len(instances)),
                "instance_list": instances,
            }
        ],
        "status": "completed",
    }


def version_1(servers: Sequence[Server]) -> dict[str, Any]:
    """Version 1.0, which current software reads: servers with their devices and ranks."""
    ranks = map(str, itertools.count())
    entries = [
        {"server_id": server.id, "device": [dict(_device(device), rank_id=next(ranks)) for device in server.devices]}
        for server in servers
    ]
    return {"version": "1.0", "server_count": str(len(entries)), "server_list": entries, "status": "completed"}


def _device(device: Device) -> dict[str, str]:
    return {"device_id": device.id, "device_ip": device.ip}
