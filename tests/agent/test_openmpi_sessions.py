"""Directories of Open MPI are gone when their agent is, however it ended, and never while it lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from muster.agent.node.openmpi import Sessions

ANOTHER = """
import sys
from muster.agent.node.openmpi import Sessions
print(Sessions().folder({"TMPDIR": sys.argv[1]}), flush=True)
input()
"""


def test_what_a_killed_agent_left_is_deleted_by_the_next_one_alone(tmp_path: Path) -> None:
    (tmp_path / "muster-mpi-link").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as another:
        assert another.stdout
        theirs = Path(another.stdout.readline().strip())
        (theirs / "ompi.host").mkdir()
        here = Sessions()
        mine = Path(here.folder({"TMPDIR": str(tmp_path)}))
        assert {theirs.name, mine.name, "mine", "muster-mpi-link"} == set(os.listdir(tmp_path))
        assert mine.stat().st_mode & 0o777 == 0o700
        another.kill()
    here.close()
    assert sorted(os.listdir(tmp_path)) == sorted([theirs.name, "mine", "muster-mpi-link"])
    here = Sessions()
    here.folder({"TMPDIR": str(tmp_path)})
    here.close()
    assert sorted(os.listdir(tmp_path)) == ["mine", "muster-mpi-link"]


def test_a_place_that_cannot_be_written_is_left_to_open_mpi(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert Sessions().folder({"TMPDIR": missing}) == missing
