"""Where everything of a node lies on its host. Several nodes may share a home, on one machine or by a network file system."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from muster.records.files import delete_tree, files_below
from muster.records.layout import RunDir, run_dir, runs_dir

KEPT = 14 * 86400.0  # seconds for which agents and code are kept after their last use, and what no supervisor has fetched
SOCKET = "muster/host/{}/{}/{}"  # of user, run and node, without a place on a disk


class HostPaths:
    def __init__(self, root: str, run_id: str, node: int) -> None:
        self.root = root
        self.blobs = f"{root}/blobs"  # agents and code, by their digests
        self.home = f"{root}/nodes/{node}"
        self.run: RunDir = run_dir(self.home, run_id)
        self.code = f"{self.run.path}/code"
        self.log = f"{self.run.path}/daemon.log"
        self.socket = "\0" + SOCKET.format(os.getuid(), run_id, node)

    def blob(self, digest: str) -> str:
        return f"{self.blobs}/{digest}"


def prune(paths: HostPaths) -> None:
    """Deletes agents, code and records that nobody has used for long. A run that goes on writes to its directory's log."""
    limit = time.time() - KEPT
    old = [path for path in _inside(paths.blobs) if _changed(path) < limit]
    for node in _inside(f"{paths.root}/nodes"):
        old += [path for path in _inside(runs_dir(node)) if _last_change(path) < limit]
    for path in old:
        with suppress(OSError):
            delete_tree(path) if os.path.isdir(path) else os.unlink(path)


def _inside(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []


def _changed(path: str) -> float:
    """When a file was written last; just now where it is gone, because another run has renamed or deleted it meanwhile."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return time.time()


def _last_change(run: str) -> float:
    """When anything of a run was written last, as far as its logs and directories show it."""
    logs = (path for path in files_below(f"{run}/attempts") if path.endswith((".log", ".jsonl")))
    return max(map(_changed, (run, *logs)))
