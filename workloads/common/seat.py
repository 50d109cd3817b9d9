"""Which rank this process is, as PyTorch's launchers tell it, or else as Muster tells every process; plain Python.

Beside it, how many CPUs a rank has.
"""

from __future__ import annotations

import os
from pathlib import Path


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


def cpus() -> float:
    """The CPUs of this rank: its share of those that the node's ranks are bound to, or of the time that a container has."""
    return min(len(os.sched_getaffinity(0)), quota()) / local_ranks()


def quota(mounted: str = "/sys/fs/cgroup", told: str = "/proc/self/cgroup") -> float:
    """How many CPUs' time the control groups of this process may take."""
    own = next((line[3:] for line in _text(told).splitlines() if line.startswith("0::/")), "/")
    limits = [_text(mounted + str(Path(path, "cpu.max"))) for path in (own, *map(str, Path(own).parents))]
    older = (_text(mounted + "/cpu/cpu.cfs_quota_us"), _text(mounted + "/cpu/cpu.cfs_period_us"))
    limits.append(" ".join(older) if not older[0].startswith("-") else "")
    words = [limit.split() for limit in limits]
    return min([float("inf"), *(int(time) / int(period) for time, period in filter(None, words) if time != "max")])


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
