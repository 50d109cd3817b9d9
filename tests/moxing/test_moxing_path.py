"""`import moxing` in a shell of one's own, with `muster moxing-path`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conftest import Muster, processes_with
from muster.cli.moxing_path_command import placed


@pytest.fixture
def place(muster: Muster) -> str:
    done = muster("moxing-path")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def run(place: str, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a Python without Muster."""
    settings = {**os.environ, "PYTHONPATH": place, **env}
    return subprocess.run(
        [sys.executable, "-S", "-s", "-c", textwrap.dedent(script)], capture_output=True, text=True, env=settings, timeout=60
    )


def test_it_prints_a_directory_with_nothing_else_to_import(place: str, muster: Muster, home: Path) -> None:
    assert sorted(os.listdir(place)) == ["modelarts", "moxing", "muster-python"]
    assert Path(place).is_relative_to(home)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (home, Path(place).parent, Path(place)))
    assert json.loads(muster("moxing-path", "--json").stdout) == {"path": place}
    assert len(os.listdir(Path(place).parent)) == 1


def test_another_muster_gets_another_directory(place: str, home: Path) -> None:
    assert str(placed(home, sys.executable)) == place
    assert str(placed(home, "/another/python")) != place


def test_a_script_reaches_the_store_of_its_owner_and_leaves_nothing_running(place: str, muster: Muster, home: Path) -> None:
    done = run(place, "import moxing as mox; mox.file.write('obs://b/f', 'x'); print(mox.file.read('obs://b/f'))")
    assert (done.stdout, done.stderr) == ("x\n", "")
    assert (home / "store/b/f").read_text() == "x"


def test_nothing_is_started_before_a_store_is_asked_for(place: str, home: Path) -> None:
    script = f"""
        import moxing as mox, os
        mox.file.write({str(home)!r} + "/f", "x")
        assert os.listdir("/proc/self/task")[1:] == []
        assert open("/proc/self/task/%d/children" % os.getpid()).read() == ""
    """
    done = run(place, script)
    assert done.stderr == ""


def test_forked_processes_share_the_server(place: str, home: Path) -> None:
    script = """
        import moxing as mox, os
        mox.file.write("obs://b/f", "x")
        child = os.fork()
        if child == 0:
            assert mox.file.read("obs://b/f") == "x"
            mox.file.write("obs://b/g", "child")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert len(open("/proc/self/task/%d/children" % os.getpid()).read().split()) == 1
        assert mox.file.read("obs://b/g") == "child"
    """
    assert run(place, script).stderr == ""


def test_a_killed_script_takes_its_server_along(place: str, home: Path) -> None:
    """The fixture `home` waits until nothing is left."""
    script = "import moxing as mox, os; mox.file.exists('obs://b/f'); os.kill(os.getpid(), 9)"
    assert run(place, script).returncode == -9
    assert len(processes_with(f"MUSTER_HOME={home}")) <= 1


def test_wrong_settings_are_told(place: str, home: Path) -> None:
    (home / "config.toml").write_text("[storage]\nendpont = 'x'\n")
    done = run(place, "import moxing as mox; mox.file.exists('obs://b/f')")
    assert "endpont" in done.stderr
    assert "MoxFile" in done.stderr
    assert "tomllib" not in done.stderr
