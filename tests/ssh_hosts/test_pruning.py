"""Agents, code and records that hosts keep: what is old is deleted, beside other runs that write and rename there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from muster.engines.ssh.node.host import paths
from muster.engines.ssh.node.host.paths import HostPaths, prune


def test_what_another_run_renames_meanwhile_is_passed_over(tmp_path: Path) -> None:
    here = HostPaths(str(tmp_path), "job-1", 0)
    record = tmp_path / "nodes/0/runs/job-0/attempts/1/nodes/0/logs/rank-0.log"
    record.parent.mkdir(parents=True)
    record.touch()
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    old, new = blobs / "old", blobs / "new"
    for path in (old, new):
        path.touch()
    os.utime(old, (1, time.time() - paths.KEPT - 1))
    (blobs / "code.1.tmp").symlink_to("gone")  # a name behind which nothing is by now
    prune(here)
    assert (old.exists(), new.exists(), record.exists()) == (False, True, True)
