"""The accelerators of this machine: one module each, with the same few functions.

`found()` lists the devices, `users()` tells which processes are on them, `choose()` picks which ones a node gets.
"""

from __future__ import annotations

from types import ModuleType
from typing import Dict

from muster.devices import ascend, cpu, nvidia
from muster.devices.base import Found

KINDS: Dict[str, ModuleType] = {"nvidia": nvidia, "ascend": ascend, "cpu": cpu}


def resolve(kind: str) -> str:
    """Which kind `auto` means on this machine."""
    if kind != "auto":
        return kind
    return next(name for name, module in KINDS.items() if name == "cpu" or module.found())


__all__ = ["KINDS", "Found", "resolve"]
