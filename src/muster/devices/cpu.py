"""Devices simulated on the CPU: as many as anybody asks for, shared by all."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from muster.devices.base import Found, Meter, Unmeasured


def found() -> List[Found]:
    return []


def users() -> Dict[str, List[int]]:
    return {}


def impossible(count: int) -> str:
    return ""


def choose(free: List[Found], count: int) -> Optional[List[Found]]:
    return [Found(str(index)) for index in range(count)]


def open_meter(ids: Sequence[str]) -> Meter:
    raise Unmeasured("the devices of this node are simulated on the CPU")
