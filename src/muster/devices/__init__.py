"""The accelerators of this machine: one module each, with the same few functions.

`found()` lists the devices, `users()` the processes on them, `impossible()` says why no node can have so many, `choose()` picks
those that a node gets, and `open_meter()` reads their use and power.
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


def open_meter(kind: str, ids: Sequence[str]) -> Meter:
    """Opens a meter for the devices of a node. Raises Unmeasured with the reason if there is none."""
    if not ids:
        raise Unmeasured("this node has no devices")
    meter: Meter = KINDS[kind].open_meter(ids)
    return meter


__all__ = ["DeviceInfo", "DriverError", "Meter", "Reading", "Unmeasured", "output_of", "real_path"]  # beside its own
