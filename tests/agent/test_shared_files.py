"""Runs share snapshots of code and the packed agent: what a rank does to them reaches no later run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Muster
from muster.agent.node import staging
from muster.launch import gc
from muster.launch.run_store import RunStore
from muster.launch.start import packed_agent, snapshot
from muster.launch.start.snapshot import keep, take
from muster.records.files import read_object
from muster.records.untrusted import NotRegular

SNAPSHOT = "cd $MUSTER_HOME/code/*/ && "
DAMAGE = {
    "changed": SNAPSHOT + "chmod u+w t.py && echo 'print(\"EVIL\")' > t.py",
    "program": SNAPSHOT + "chmod 755 t.py",
    "unreadable": SNAPSHOT + "chmod 0 t.py pkg",
    "added": SNAPSHOT + "mkdir __pycache__ && echo 'print(\"EVIL\")' > random.py && touch __pycache__/x.pyc",
    "fifo": SNAPSHOT + "mkfifo extra",
    "fifo instead": SNAPSHOT + "rm -f t.py && mkfifo t.py",
    "link": SNAPSHOT + "rm -f t.py && ln -s /etc/hostname t.py",
    "huge": SNAPSHOT + "truncate -s 600M extra",
    "removed": SNAPSHOT + "rm -rf t.py",
    "a link to a copy": SNAPSHOT + "cp -r . ../../copy && rm -rf $PWD && ln -s ../copy $PWD",
    "a file": SNAPSHOT + "rm -rf $PWD && echo x > $PWD",
    "agent": "echo broken > $MUSTER_HOME/agent/*.pyz",
    "agent removed": "rm $MUSTER_HOME/agent/*.pyz",
    "agent as directory": "cd $MUSTER_HOME/agent && for f in *.pyz; do rm $f; mkdir -p $f/x; done",
    "agent as fifo": "cd $MUSTER_HOME/agent && for f in *.pyz; do rm $f; mkfifo $f; done",
}
REALLY = ("changed", "unreadable", "a file", "agent", "agent as fifo")  # what ranks of runs do, of all of these


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code of a user"
    (folder / "pkg").mkdir(parents=True)
    (folder / "t.py").write_text("import random\nprint('good')\n")
    (folder / "pkg" / "m.py").write_text("")
    (folder / "link").symlink_to("t.py")
    return folder


def kept(code: Path, home: Path) -> Path:
    return snapshot.folder(str(home), keep(take(str(code), str(home)), str(home)).digest)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_was_done_to_shared_files_is_undone_for_the_next_run(damage: str, code: Path, home: Path) -> None:
    folder = kept(code, home)
    packed = Path(packed_agent.build(str(home))).read_bytes()
    subprocess.run(["bash", "-c", damage], check=True, cwd=code)
    assert kept(code, home) == folder
    assert snapshot.intact(str(home), folder.name)
    assert sorted(os.listdir(folder)) == ["link", "pkg", "t.py"]
    assert (folder / "t.py").read_text() == (code / "t.py").read_text()
    assert Path(packed_agent.build(str(home))).read_bytes() == packed


@pytest.mark.parametrize("damage", [DAMAGE[name] for name in REALLY], ids=REALLY)
def test_what_a_rank_does_to_shared_files_reaches_no_later_run(damage: str, code: Path, muster: Muster, home: Path) -> None:
    first = muster("run", "--device", "cpu", "--", "bash", "-c", damage, cwd=code)
    assert first.returncode == 0, first.stderr
    later = muster("run", "--device", "cpu", "--", sys.executable, "t.py", cwd=code, timeout=60)
    assert (later.returncode, later.stdout) == (0, "[0] good\n"), later.stderr
    digests = {str(read_object(str(run / "run.json")).get("code")) for run in (home / "runs").iterdir()}
    assert digests == {take(str(code), str(home)).digest}
    assert all(snapshot.intact(str(home), digest) for digest in digests)


def test_a_damaged_snapshot_may_be_in_use_and_is_moved_away_whole(code: Path, home: Path) -> None:
    folder = kept(code, home)
    (folder / "extra").write_text("x")
    used = os.open(folder, os.O_RDONLY)
    try:
        assert kept(code, home) == folder
        assert sorted(os.listdir(used)) == ["extra", "link", "pkg", "t.py"]
    finally:
        os.close(used)
    assert sorted(os.listdir(folder)) == ["link", "pkg", "t.py"]
    (aside,) = (path for path in (home / "code").iterdir() if path != folder)
    os.utime(aside, (time.time() - 2 * gc.YOUNG,) * 2)
    gc.unused(RunStore(str(home)), gc.Cleared())
    assert list((home / "code").iterdir()) == [folder]


def test_an_intact_snapshot_is_not_copied_again(code: Path, home: Path) -> None:
    before = os.stat(kept(code, home)).st_ino
    assert os.stat(kept(code, home)).st_ino == before


def test_staging_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    os.mkfifo(tmp_path / "snapshot" / "pipe")
    with pytest.raises(NotRegular, match="a FIFO"):
        staging.copy_tree(str(tmp_path / "snapshot"), str(tmp_path / "work"))


@pytest.mark.parametrize("writable", [True, False])
def test_a_damaged_agent_is_replaced(writable: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import muster

    copy = tmp_path / "muster"
    shutil.copytree(Path(muster.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(muster, "__file__", str(copy / "__init__.py"))
    if not writable:
        (copy / "__pycache__").touch()  # root could write into any directory
    agent = Path(packed_agent.build(str(home)))
    good = agent.read_bytes()
    for folder in (home / "agent").iterdir() if writable else [agent]:
        folder.write_bytes(b"broken")
    assert packed_agent.build(str(home)) == str(agent)
    assert agent.read_bytes() == good


def test_the_copy_of_an_older_agent_is_deleted(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import muster

    copy = tmp_path / "muster"
    shutil.copytree(Path(muster.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(muster, "__file__", str(copy / "__init__.py"))
    packed_agent.build(str(home))
    (copy / "agent" / "main.py").write_text("changed = True\n")
    packed_agent.build(str(home))
    assert len(list((copy / "__pycache__").iterdir())) == 1
