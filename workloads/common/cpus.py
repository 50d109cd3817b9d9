"""How many CPUs a rank has; plain Python.

Python knows what a process is bound to, and (as of 3.13) nothing of the time that a container is given.
"""

from __future__ import annotations

import os
from pathlib import Path

from common import seat


def of_rank() -> int:
    """A rank's share of the CPUs that its node's ranks are bound to, or of the time that their container has; at least one."""
    return max(1, int(min(len(os.sched_getaffinity(0)), quota()) / seat.local_ranks()))


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
