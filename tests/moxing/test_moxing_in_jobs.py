"""`import moxing` in the ranks of a run: nothing has to be installed or set up for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, until

TRAIN = """
import os, moxing as mox
rank, cache = os.environ["MUSTER_RANK"], os.environ["MUSTER_SHARED"] + "/cache-" + os.environ["MUSTER_NODE"]
mox.file.copy_parallel("obs://data/set", cache)
assert sorted(os.listdir(cache)) == ["a", "b"]
mox.file.write("obs://out/rank-" + rank, open(cache + "/a").read())
assert not [name for name in os.environ if "SECRET" in name or name == "MUSTER_STORAGE"]
"""

SAVING = """
import moxing as mox, signal, sys, time
def save(number, frame):
    mox.file.write("obs://out/checkpoint", "saved while stopping")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
mox.file.write("obs://out/ready", "")
while True:
    time.sleep(0.1)
"""


@pytest.mark.conformance(not_on_server="it puts data into the submitter's store")
def test_all_ranks_copy_and_save(
    containment: str, write_job: WriteJob, run_json: Callable[..., dict[str, Any]], home: Path
) -> None:
    for name in ("a", "b"):
        (home / "store/data/set").mkdir(parents=True, exist_ok=True)
        (home / "store/data/set" / name).write_text(name)
    job = write_job({"per": "device", "nodes": 2, "devices": 4}, **{"train.py": TRAIN})
    run = run_json(job, AWS_SECRET_ACCESS_KEY="SECRET")
    assert run["state"] == "succeeded", run["reason"]
    saved = {path.name: path.read_text() for path in (home / "store/out").iterdir()}
    assert saved == {f"rank-{rank}": "a" for rank in range(8)}


def test_a_rank_saves_while_its_run_is_being_stopped(containment: str, write_job: WriteJob, muster: Muster, home: Path) -> None:
    job = write_job({"grace": "20s"}, **{"train.py": SAVING})
    run = muster("run", job, "--detach").stdout.strip()
    until((home / "store/out/ready").exists)
    assert muster("stop", run).returncode == 0
    assert (home / "store/out/checkpoint").read_text() == "saved while stopping"
