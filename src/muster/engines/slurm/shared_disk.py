"""Checks, before a run is submitted, whether the nodes of a cluster can see a directory of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from muster.linux.proc import read

HERE_ALONE = ("tmpfs", "ramfs", "devtmpfs")  # in the memory of this machine
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "aufs", "squashfs")


def unseen(path: str, shared: Iterable[str]) -> str:
    """Why the nodes certainly cannot see a directory; empty where they may."""
    roots = [os.path.realpath(os.path.expanduser(root)) for root in shared]
    if roots:
        inside = any(_inside(os.path.realpath(path), root) for root in roots)
        return "" if inside else f"lies in none of the directories that nodes share ({', '.join(roots)})"
    kind = file_system(path)
    return f"lies on {kind}, in the memory of this machine, where no other can see it" if kind in HERE_ALONE else ""


def doubtful(path: str, shared: Iterable[str]) -> str:
    """The file system of a directory if it is probably local to this machine."""
    kind = "" if list(shared) else file_system(path)
    return kind if kind in LOCAL else ""


def unwritable(path: str) -> str:
    """Why the path of a directory cannot be written into a batch script."""
    return "has a line break, a backslash or a control character in its name" if re.search(r"[\x00-\x1f\x7f\\]", path) else ""


def file_system(path: str) -> str:
    """The kind of file system that a path lies on or would lie on, such as `nfs4`."""
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in os.fsdecode(read("/proc/self/mountinfo")).splitlines():
        fields, _, more = line.partition(" - ")
        root = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields.split(" ")[4])
        if _inside(real, root) and len(root) >= len(best):
            best, kind = root, more.split(" ")[0]
    return kind


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
