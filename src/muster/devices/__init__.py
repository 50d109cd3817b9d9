"""The accelerators of this machine: one module each, with the same few functions.

`found()` lists the devices, `users()` the processes on them, `impossible()` says why no node can have so many, `choose()` picks
those that a node gets, `files()` names what a program opens to use them, and `open_meter()` reads their use and power.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Callable

from muster.devices import ascend, cpu, nvidia
from muster.devices.base import DeviceInfo, DriverError, Meter, Reading, Unmeasured, output_of, real_path

KINDS: dict[str, ModuleType] = {"nvidia": nvidia, "ascend": ascend, "cpu": cpu}


def found(kind: str, say: Callable[[str], None] = lambda text: None) -> list[DeviceInfo]:
    """The devices of a kind; none, with a message to `say`, if their driver does not work."""
    try:
        devices: list[DeviceInfo] = KINDS[kind].found()
        return devices
    except DriverError as error:
        say(str(error))
        return []


def resolve(kind: str, say: Callable[[str], None] = lambda text: None) -> str:
    """The kind that `auto` stands for on this machine."""
    if kind != "auto":
        return kind
    return next(name for name in KINDS if name == "cpu" or found(name, say))


def files(kind: str, devices: Sequence[DeviceInfo]) -> list[str]:
    """The files that a program opens to use devices, as far as the driver has them."""
    paths: list[str] = KINDS[kind].files(devices)
    return paths


def share(kind: str, free: Sequence[DeviceInfo], nodes: int, count: int) -> list[list[DeviceInfo]] | None:
    """Shares out `count` free devices to each of several nodes; None if there are not enough."""
    left = list(free)
    shares: list[list[DeviceInfo]] = []
    for _ in range(nodes):
        chosen: list[DeviceInfo] | None = KINDS[kind].choose(left, count)
        if chosen is None:
            return None
        shares.append(chosen)
        left = [device for device in left if device not in chosen]
    return shares


def shortage(kind: str, there: Sequence[DeviceInfo], nodes: int, count: int, who: str) -> str:
    """Why the devices of a machine, in use or not, can never serve so many nodes; empty if they can."""
    if share(kind, there, nodes, count) is not None:
        return ""
    if not there:
        return f"asks for {kind} devices, and {who} has none"
    asked = f"{nodes} times {count}" if nodes > 1 else str(count)
    had = str(len(there))
    if nodes * count <= len(there):  # enough, but not beside each other
        had = "no ring with as many: it has " + ", ".join(device.id for device in there)
    return f"asks for {asked} {kind} devices, and {who} has {had}"


def open_meter(kind: str, ids: Sequence[str]) -> Meter:
    """Opens a meter for the devices of a node. Raises Unmeasured with the reason if there is none."""
    if not ids:
        raise Unmeasured("this node has no devices")
    meter: Meter = KINDS[kind].open_meter(ids)
    return meter


__all__ = ["DeviceInfo", "DriverError", "Meter", "Reading", "Unmeasured", "output_of", "real_path"]  # beside its own
