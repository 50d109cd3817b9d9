"""Which rank this process is, as PyTorch's launchers tell it, or else as Muster tells every process; plain Python."""

from __future__ import annotations

import os


def told(name: str, default: str = "") -> str:
    """A variable of PyTorch's launchers, or Muster's own of that name, which a job of any framework has."""
    return os.environ.get(name) or os.environ.get("MUSTER_" + name) or default


def alone() -> bool:
    """Whether the ranks of a server are to make a world of their own, as AISBench's SINGLESERVER_MODE asks of scripts."""
    return os.environ.get("SINGLESERVER_MODE") == "True"


def server() -> str:
    """The number of the server where every one trains alone, else nothing."""
    return os.environ.get("MUSTER_NODE", "0") if alone() else os.environ.get("MUSTER_SERVER", "")


def rank() -> int:
    return local_rank() if alone() else int(told("RANK", "0"))


def ranks() -> int:
    return local_ranks() if alone() else int(told("WORLD_SIZE", "1"))


def local_rank() -> int:
    return int(told("LOCAL_RANK", "0"))


def local_ranks() -> int:
    """How many ranks this node has."""
    everywhere, nodes = int(told("WORLD_SIZE", "1")), int(os.environ.get("MUSTER_NODES", "1"))
    return int(os.environ.get("LOCAL_WORLD_SIZE") or everywhere // nodes or 1)
