"""`muster rm` and `muster prune`: records go, and what nothing uses any more goes with them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from going import going, only_run

from conftest import Muster, WriteJob

DAY = 86400


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def end_earlier(home: Path, run_id: str, seconds: float) -> None:
    """Makes a recorded run look as if it had ended that long ago."""
    path = home / "runs" / run_id / "final.json"
    view = json.loads(path.read_text())
    path.write_text(json.dumps({**view, "ended": time.time() - seconds}))


def ids(muster: Muster) -> list[str]:
    return [view["run"] for view in json.loads(muster("ps", "--json").stdout)]


def test_rm_deletes_records_and_their_code(muster: Muster, write_job: WriteJob, home: Path) -> None:
    muster("run", write_job({"command": "mkdir shut; touch shut/file; chmod 555 shut"}))
    first = only_run()
    muster("run", write_job({"command": "true"}, other="changes the code"))
    for code in (home / "code").iterdir():
        age(code, 2 * DAY)
    done = muster("rm", first)
    assert (done.returncode, done.stdout) == (0, "removed 1 run\n")
    assert len(ids(muster)) == 1
    assert len(list((home / "code").iterdir())) == 1
    assert muster("rerun", "last").returncode == 0


def test_a_run_named_twice_is_removed_once(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "true"}))
    done = muster("rm", "last", only_run())
    assert (done.returncode, done.stdout) == (0, "removed 1 run\n")


def test_when_one_of_them_still_runs_nothing_is_removed(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "true"}))
    ended = only_run()
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        done = muster("rm", ended, run_id)
        assert done.returncode == 2
        assert f"{run_id} has not ended; `muster stop` it first, nothing was removed" in done.stderr
        assert set(ids(muster)) == {ended, run_id}


def test_prune_deletes_what_ended_long_ago(muster: Muster, write_job: WriteJob, home: Path) -> None:
    muster("run", write_job({"command": "true"}))
    old = only_run()
    muster("rerun", "last")
    end_earlier(home, old, 40 * DAY)
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as busy:
        told = json.loads(muster("prune", "--older", "30d", "--dry-run", "--json").stdout)
        assert (told["removed"], told["dry_run"]) == ([old], True)
        assert told["bytes"] > 0
        assert len(ids(muster)) == 3
        assert muster("prune", "--older", "30d").stdout.startswith("removed 1 run, ")
        assert old not in ids(muster)
        assert muster("prune", "--older", "0s").stdout.startswith("removed 1 run, ")
        assert ids(muster) == [busy]


def test_prune_clears_what_killed_commands_left_half_done(muster: Muster, write_job: WriteJob, home: Path) -> None:
    muster("run", write_job({"command": "true"}))
    half_made, half_deleted, fresh = (home / "runs" / name for name in ("job-20250101-000000-abcd", ".job-x", "job-new"))
    unused_agent = home / "agent" / "0123.pyz"
    for folder in (half_made, half_deleted, fresh):
        folder.mkdir()
        (folder / "job.json").write_text("{}")
    unused_agent.write_text("")
    for path in (half_made, half_deleted, unused_agent):
        age(path, 2 * DAY)
    assert muster("prune", "--older", "30d").stdout.startswith("removed 0 runs, ")
    assert not half_made.exists()
    assert not half_deleted.exists()
    assert not unused_agent.exists()
    assert fresh.exists()
    assert muster("rerun", "last").returncode == 0


@pytest.mark.parametrize("words", [[], ["--older", "soon"], ["--older", "-1d"], ["--older", ""]])
def test_prune_needs_an_age_that_it_understands(muster: Muster, words: list[str]) -> None:
    done = muster("prune", *words)
    assert done.returncode == 2
    assert "--older" in done.stderr


def test_prune_removes_links_and_never_what_they_lead_to(muster: Muster, home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("kept" * 1000)
    (home / "runs").mkdir(parents=True)
    for name, target in (("loop", "loop"), ("away", str(tmp_path / "elsewhere")), ("nowhere", "gone")):
        (home / "runs" / name).symlink_to(target)
        moment = time.time() - 2 * DAY
        os.utime(home / "runs" / name, (moment, moment), follow_symlinks=False)
    done = muster("prune", "--older", "0s", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["bytes"] < 1000
    assert not list((home / "runs").iterdir())
    assert (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make something that nobody can remove")
def test_what_cannot_be_removed_is_named_and_the_rest_goes(
    muster: Muster, write_job: WriteJob, home: Path, command: list[str]
) -> None:
    """A directory on which something is mounted stays."""
    muster("run", write_job({"command": "true"}))
    muster("rerun", "last")
    stays, goes, first = home / "code" / "stays", home / "runs" / "goes", only_run()
    for folder in (stays / "on", goes):
        folder.mkdir(parents=True)
    for folder in (stays, goes):
        age(folder, 2 * DAY)
    run = home / "runs" / first / "shared"
    mounts = f"mount -t tmpfs none {stays}/on && mount -t tmpfs none {run}"
    line = f"{mounts} && {' '.join(command)} prune --older 0s --json"
    done = subprocess.run(["unshare", "-m", "sh", "-c", line], capture_output=True, text=True)
    if "mount" in done.stderr and not done.stdout:
        pytest.skip("nothing can be mounted here")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (len(told["removed"]), len(told["left"])) == (1, 2)
    assert str(stays) in done.stderr and first in done.stderr
    assert "busy" in done.stderr.lower()
    assert not goes.exists()
