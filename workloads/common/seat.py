"""Which rank this process is, as PyTorch's launchers tell it, or else as Muster tells every process; plain Python."""

from __future__ import annotations

import os


def told(name: str, default: str = "") -> str:
    """A variable of PyTorch's launchers, or Muster's own of that name, which a job of any framework has."""
    return os.environ.get(name) or os.environ.get("MUSTER_" + name) or default


def rank() -> int:
    return int(told("RANK", "0"))


def ranks() -> int:
    return int(told("WORLD_SIZE", "1"))


def local_rank() -> int:
    return int(told("LOCAL_RANK", "0"))


def local_ranks() -> int:
    """How many ranks this node has."""
    return int(os.environ.get("LOCAL_WORLD_SIZE") or ranks() // int(os.environ.get("MUSTER_NODES", "1")) or 1)
