"""Devices simulated on the CPU: as many as anybody asks for, shared by all."""

from __future__ import annotations

from collections.abc import Sequence

from muster.devices.base import Found, Meter, Unmeasured


def found() -> list[Found]:
    return []


def users() -> dict[str, list[int]]:
    return {}


def impossible(count: int) -> str:
    return ""


def choose(free: list[Found], count: int) -> list[Found] | None:
    return [Found(str(index)) for index in range(count)]


def open_meter(ids: Sequence[str]) -> Meter:
    raise Unmeasured("the devices of this node are simulated on the CPU")
