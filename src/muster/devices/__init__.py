"""The accelerators of this machine: one module each, with the same few functions.

`found()` lists the devices, `users()` tells which processes are on them, `impossible()` why no node can have so many,
`choose()` picks which ones a node gets, `open_meter()` reads what they take and do.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Callable

from muster.devices import ascend, cpu, nvidia
from muster.devices.base import DriverError, Found, Meter, Reading, Unmeasured, real_path

KINDS: dict[str, ModuleType] = {"nvidia": nvidia, "ascend": ascend, "cpu": cpu}


def found(kind: str, say: Callable[[str], None] = lambda text: None) -> list[Found]:
    """The devices of a kind; `say` hears of a driver that does not work, which counts as none."""
    try:
        devices: list[Found] = KINDS[kind].found()
        return devices
    except DriverError as error:
        say(str(error))
        return []


def resolve(kind: str, say: Callable[[str], None] = lambda text: None) -> str:
    """Which kind `auto` means on this machine."""
    if kind != "auto":
        return kind
    return next(name for name in KINDS if name == "cpu" or found(name, say))


def share(kind: str, free: Sequence[Found], nodes: int, count: int) -> list[list[Found]] | None:
    """`count` of the free devices for each of several nodes, or None where they do not suffice."""
    left = list(free)
    shares: list[list[Found]] = []
    for _ in range(nodes):
        chosen: list[Found] | None = KINDS[kind].choose(left, count)
        if chosen is None:
            return None
        shares.append(chosen)
        left = [device for device in left if device not in chosen]
    return shares


def open_meter(kind: str, ids: Sequence[str]) -> Meter:
    """A meter for the devices of a node; Unmeasured says why there can be none."""
    if not ids:
        raise Unmeasured("this node has no devices")
    meter: Meter = KINDS[kind].open_meter(ids)
    return meter


__all__ = [
    "KINDS",
    "DriverError",
    "Found",
    "Meter",
    "Reading",
    "Unmeasured",
    "found",
    "open_meter",
    "real_path",
    "resolve",
    "share",
]
