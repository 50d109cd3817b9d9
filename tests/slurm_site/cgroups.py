"""Control groups of a site's nodes, by which the kernel keeps the memory of jobs: where this machine lets us make some."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

MEMORY = Path("/sys/fs/cgroup/memory")  # version 1: in version 2 slurmd wants systemd to make them
CONF = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n"
SETTINGS: dict[str, str | int] = {"TaskPlugin": "task/cgroup"}


def unavailable() -> str | None:
    """Why the kernel keeps no memory here, if so."""
    writable = os.access(MEMORY, os.W_OK) and (MEMORY / "release_agent").exists()
    return None if writable else f"no memory control groups of version 1 can be made in {MEMORY}"


def remove(nodes: Iterable[str]) -> None:
    """Takes away the groups of nodes whose processes are gone; the kernel may need a moment to see that."""
    deadline = time.monotonic() + 10
    left = [folder for node in nodes for folder in _below(MEMORY / f"slurm_{node}")]
    while left and time.monotonic() < deadline:
        left = [folder for folder in left if not _removed(folder)]
        time.sleep(0.01)


def _below(top: Path) -> list[Path]:
    """All groups of a node, the innermost first."""
    return [Path(folder) for folder, _, _ in os.walk(top, topdown=False)]


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return not folder.exists()
    return True
