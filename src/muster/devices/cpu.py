"""Devices simulated on the CPU: any number of them, shared by all runs."""

from __future__ import annotations

from collections.abc import Sequence

from muster.devices.base import DeviceInfo, Meter, Unmeasured


def found() -> list[DeviceInfo]:
    return []


def files(devices: Sequence[DeviceInfo]) -> list[str]:
    return []


def users() -> dict[str, list[int]]:
    return {}


def impossible(count: int) -> str:
    return ""


def choose(free: list[DeviceInfo], count: int) -> list[DeviceInfo] | None:
    return [DeviceInfo(str(index)) for index in range(count)]


def open_meter(ids: Sequence[str]) -> Meter:
    raise Unmeasured("the devices of this node are simulated on the CPU")
