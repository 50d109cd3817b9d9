"""Where runs are kept: any path, for nobody else's eyes, and one clear error when it cannot be written to."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, gone

RunJson = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("name", ["with space", "模型 'quoted' $HOME", "-dashed", "a" * 120, "trailing "])
def test_a_home_can_have_any_name(
    name: str, containment: str, muster: Muster, write_job: WriteJob, tmp_path: Path, home: Path
) -> None:
    place = tmp_path / name / "home"
    place.mkdir(parents=True)
    if (home / "config.toml").exists():
        (place / "config.toml").write_text((home / "config.toml").read_text())
    job = write_job(
        {"nodes": 2, "setup": "export FROM=setup", "workdir": "rank"},
        **{"train.py": "import os\nopen(os.environ['MUSTER_SHARED'] + '/x', 'w').close()\nprint(os.environ['FROM'], '完成')\n"},
    )
    done = muster("run", job, MUSTER_HOME=str(place), LC_ALL="C", PYTHONIOENCODING="utf-8")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] setup 完成", "[1] setup 完成"]
    assert gone(f"MUSTER_HOME={place}") == []


def test_home_is_in_the_users_own_directory_unless_said_otherwise(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    done = muster("run", write_job({"command": "pwd"}), MUSTER_HOME="", HOME=str(tmp_path / "me"))
    assert done.stdout.startswith(f"[0] {tmp_path}/me/.muster/runs/job-")


def test_what_a_run_writes_is_for_its_user_alone(containment: str, run_json: RunJson, write_job: WriteJob, home: Path) -> None:
    job = write_job({"nodes": 2, "setup": "true", "retries": 1}, **{"train.py": "raise ValueError"})
    before = os.umask(0)
    try:
        view = run_json(job)
    finally:
        os.umask(before)
    run = Path(view["dir"])
    assert [stat.S_IMODE(path.stat().st_mode) for path in (run, run.parent)] == [0o700, 0o700]
    written = {path: stat.S_IMODE(path.lstat().st_mode) for path in run.rglob("*") if path.is_file() and not path.is_symlink()}
    own = {path: mode for path, mode in written.items() if "work" not in path.parts}
    assert set(own.values()) == {0o600}
    assert {"job.json", "job.yaml", "run.json", "final.json", "events.jsonl", "plan.json", "rank-0.log"} <= {
        path.name for path in own
    }


def test_a_new_home_is_for_its_user_alone(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    place = tmp_path / "new" / "home"
    assert muster("run", write_job({"command": "true"}), MUSTER_HOME=str(place)).returncode == 0
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_files_that_ranks_write_have_the_mode_that_ranks_choose(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "umask; touch mine; stat -c %a mine"}))
    mask, mode = Path(view["attempts"][0]["ranks"][0]["log"]).read_text().split()
    assert int(mode, 8) == 0o666 & ~int(mask, 8)


def one_clear_error(done: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("muster: run ")]
    assert len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in words), lines[0]


def test_a_home_that_is_a_file_is_one_clear_error(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        done = muster("run", write_job({"command": "true"}), MUSTER_HOME=str(place))
        one_clear_error(done, str(place), "set MUSTER_HOME to a directory of yours", code=2)


@pytest.fixture
def small(command: list[str], home: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a shell text with `muster` as a function, where the home is a small disk of its own."""
    try:
        subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here")

    def run(text: str, options: str = "size=8m") -> subprocess.CompletedProcess[str]:
        home.mkdir(exist_ok=True)
        prepare = f'muster() {{ "$@"; }}; mount -t tmpfs -o {options} none "$MUSTER_HOME" || exit 99\n'
        prepare = prepare.replace('"$@"', " ".join(command) + ' "$@"')
        return subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", prepare + text],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            timeout=60,
        )

    return run


def test_a_disk_that_is_full_before_is_one_clear_error(
    small: Callable[..., subprocess.CompletedProcess[str]], write_job: WriteJob
) -> None:
    job = write_job({"command": "true"})
    one_clear_error(small(f"cat /dev/zero > $MUSTER_HOME/fill 2> /dev/null; muster run {job}"), "No space left on device")


def test_a_home_that_is_read_only_is_one_clear_error(
    small: Callable[..., subprocess.CompletedProcess[str]], write_job: WriteJob
) -> None:
    one_clear_error(small(f"muster run {write_job({'command': 'true'})}", "ro"), "Read-only file system")


def test_a_run_that_fills_the_disk_ends_and_says_so(
    small: Callable[..., subprocess.CompletedProcess[str]], write_job: WriteJob
) -> None:
    job = write_job({"nodes": 2, "command": "sleep 1000 & cat /dev/zero"})
    free = "rm $MUSTER_HOME/runs/*/attempts/1/nodes/*/logs/*"
    done = small(f"muster run {job} > /dev/null; echo code $?; muster show last; {free}; muster ps")
    assert "code 1\n" in done.stdout
    assert "the disk of its run directory is full" in done.stderr
    assert "the disk of its run directory is full" in done.stdout
    assert "  lost  " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
