"""The code of a run is kept as it was when the run was made: by digest, without what is not code, and never written to."""

from __future__ import annotations

import os
import socket
import stat
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import Muster, WriteJob
from muster.launch.start import snapshot
from muster.launch.start.snapshot import SnapshotError, keep, take

RunJson = Callable[..., dict[str, Any]]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code of a user"
    folder.mkdir()
    (folder / "train.py").write_text("print('training')\n")
    return folder


def names(code: Path, home: Path) -> list[str]:
    """What a snapshot of a directory holds."""
    return [entry.name for entry in take(str(code), str(home)).entries]


def put(folder: Path, *files: str) -> None:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def listing(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """Everything about the files of a folder that somebody could have changed."""
    found = []
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found.append((str(path), info.st_mode, info.st_mtime_ns, data))
    return found


def test_version_control_caches_and_environments_are_left_out(code: Path, home: Path) -> None:
    put(code, ".git/HEAD", ".svn/x", "pkg/__pycache__/m.pyc", ".mypy_cache/x", "node_modules/x", "pkg.egg-info/x", "pkg/m.py")
    venv.create(code / "my environment", symlinks=True)
    venv.create(code / "deep" / ".venv", symlinks=True)
    put(code, "conda/conda-meta/history", "conda/bin/python")
    assert names(code, home) == ["deep", "pkg", "pkg/m.py", "train.py"]


def test_musterignore_has_the_rules_of_gitignore(code: Path, home: Path) -> None:
    put(code, "data/big.bin", "data/keep.txt", "logs/a.log", "b.log", "docs/b.log", "build/x", "src/build/y", "weights.ckpt")
    (code / ".musterignore").write_text("# data\ndata/*\n!data/keep.txt\n*.log\n/build/\n\nweights.*\n")
    assert names(code, home) == [
        ".musterignore",
        "data",
        "data/keep.txt",
        "docs",
        "logs",
        "src",
        "src/build",
        "src/build/y",
        "train.py",
    ]


@pytest.mark.parametrize("place", ["state/muster", "."])
def test_a_home_inside_the_code_directory_is_not_code(place: str, code: Path, muster: Muster) -> None:
    put(code, "state/notes")
    for _ in range(2):
        done = muster("run", "--device", "cpu", "--", "ls", "-A", ".", "state", cwd=code, MUSTER_HOME=str(code / place))
        assert done.stdout == "[0] .:\n[0] state\n[0] train.py\n[0] \n[0] state:\n[0] notes\n"
    assert len(list((code / place / "code").iterdir())) == 1


def kept_copy(code: Path, home: Path) -> Path:
    return snapshot.folder(str(home), keep(take(str(code), str(home)), str(home)).digest)


def test_links_lead_to_the_same_content_as_before(code: Path, home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "data set"
    put(outside, "images")
    put(code, "pkg/m.py")
    (code / "relative.py").symlink_to("pkg/m.py")
    (code / "pkg" / "up.py").symlink_to("../train.py")
    (code / "absolute.py").symlink_to(code / "pkg" / "m.py")
    (code / "data").symlink_to("../data set")
    (code / "nowhere").symlink_to("no such file")
    kept = kept_copy(code, home)
    assert (kept / "relative.py").read_text() == "pkg/m.py"
    assert (kept / "pkg" / "up.py").read_text() == "print('training')\n"
    assert (kept / "data" / "images").read_text() == "images"
    assert (kept / "absolute.py").resolve() == kept / "pkg" / "m.py"
    assert os.readlink(kept / "nowhere") == "no such file"


def test_programs_stay_programs_and_empty_directories_stay(code: Path, home: Path) -> None:
    put(code, "run.sh")
    (code / "run.sh").chmod(0o750)
    (code / "checkpoints").mkdir()
    kept = kept_copy(code, home)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir() if path.is_file()}
    assert modes == {"run.sh": 0o555, "train.py": 0o444}
    assert list((kept / "checkpoints").iterdir()) == []


def test_names_can_be_anything_that_linux_allows(code: Path, home: Path) -> None:
    odd = [b"with space", "模型.py".encode(), b"new\nline", b"not utf-8 \xff", b"-rf", b"*"]
    for name in odd:
        (code / os.fsdecode(name)).write_text("x")
    kept = kept_copy(code, home)
    assert sorted(os.listdir(os.fsencode(kept))) == sorted([*odd, b"train.py"])


def test_sockets_and_pipes_are_not_code(code: Path, home: Path) -> None:
    os.mkfifo(code / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{(holder := os.open(code, os.O_RDONLY))}/socket")
        os.close(holder)
        assert names(code, home) == ["train.py"]


def test_the_digest_changes_with_content_names_modes_and_links_alone(code: Path, home: Path) -> None:
    def digest() -> str:
        return take(str(code), str(home)).digest

    put(code, "run.sh")
    (code / "c").symlink_to("a b")
    seen = [digest()]
    os.utime(code / "run.sh", (0, 0))
    assert digest() == seen[0]
    for change in (
        lambda: (code / "run.sh").chmod(0o755),
        lambda: (code / "run.sh").write_text("run.sh "),
        lambda: (code / "run.sh").rename(code / "run2.sh"),
        lambda: (code / "empty").mkdir(),
        lambda: (code / "c").unlink(),
        lambda: (code / "b c").symlink_to("a"),
    ):
        change()
        seen.append(digest())
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(("name", "most"), [("MOST_FILES", 3), ("MOST_BYTES", 100)])
def test_too_much_code_is_refused_with_a_hint(
    name: str, most: int, code: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, name, most)
    put(code, *(f"data/{number}" for number in range(40)))
    with pytest.raises(SnapshotError, match=r"holds more than \d+ (files|MB) \(up to `data/\d+`\)"):
        take(str(code), str(home))
    (code / ".musterignore").write_text("data/\n")
    assert names(code, home) == [".musterignore", "train.py"]


@pytest.mark.long
def test_a_run_with_too_many_files_does_not_start(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "true"})
    for number in range(snapshot.MOST_FILES + 1):
        (job.parent / str(number)).touch()
    done = muster("run", job)
    assert done.returncode == 2
    assert "20,000 files" in done.stderr
    assert ".musterignore" in done.stderr
    assert not (home / "runs").exists()


def test_code_that_changes_while_it_is_copied_is_kept_as_it_was_copied(code: Path, home: Path) -> None:
    put(code, "growing.log", "vanishing.py")
    taken = take(str(code), str(home))
    (code / "growing.log").write_text("more and more")
    (code / "vanishing.py").unlink()
    kept = keep(taken, str(home))
    assert kept.digest != taken.digest
    assert kept.digest == take(str(code), str(home)).digest
    assert sorted(os.listdir(home / "code" / kept.digest)) == ["growing.log", "train.py"]
    assert [path.name for path in (home / "code").iterdir()] == [kept.digest]


def test_plain_files_with_the_name_of_an_environment_are_code(code: Path, home: Path) -> None:
    put(code, ".env", "venv/module.py")
    assert names(code, home) == [".env", "train.py", "venv", "venv/module.py"]


def test_an_unreadable_file_is_named(muster: Muster, write_job: WriteJob) -> None:
    if os.getuid() == 0:
        pytest.skip("root reads everything")
    job = write_job({"command": "true"}, **{"private": "x"})
    (job.parent / "private").chmod(0)
    done = muster("run", job)
    assert done.returncode == 2
    assert "private" in done.stderr


def test_runs_of_the_same_code_share_one_snapshot(run_json: RunJson, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "cat word"}, **{"word": "one"})
    for _ in range(2):
        run_json(job)
    assert len(list((home / "code").iterdir())) == 1
    (job.parent / "word").write_text("two")
    run_json(job)
    assert len(list((home / "code").iterdir())) == 2


@pytest.mark.conformance(
    not_on_server="code goes there without its times", not_on_hosts="hosts have an environment of their own"
)
def test_a_later_edit_changes_neither_a_running_run_nor_a_recorded_one(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    job = write_job(
        {"retries": 1},
        **{
            "word.txt": "before",
            "train.py": """
            import os, pathlib, sys, time
            print("up", flush=True)
            while not os.path.exists(os.environ["GO"]):
                time.sleep(0.01)
            print(pathlib.Path("word.txt").read_text(), pathlib.Path("word.txt").stat().st_mtime)
            sys.exit(os.environ["MUSTER_ATTEMPT"] == "1")
            """,
        },
    )
    os.utime(job.with_name("word.txt"), (1_000_000_000, 1_000_000_000))
    with Live(command, job, GO=str(tmp_path / "go")) as live:
        live.until_running()
        job.with_name("word.txt").write_text("after")
        job.with_name("train.py").write_text("raise SystemExit('edited')")
        (tmp_path / "go").touch()
        assert live.end()["state"] == "succeeded"
        assert live.log(attempt=2) == "up\nbefore 1000000000.0\n"
    again = muster("rerun", live.run.id, GO=str(tmp_path / "go"))
    assert again.stdout.count("[0] before 1000000000.0\n") == 2


@pytest.mark.long
def test_the_code_directory_is_never_written_to(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job(
        {"per": "device", "devices": 2, "nodes": 2, "setup": "echo built > built.txt; rm keep.txt"},
        **{
            "keep.txt": "kept",
            "pkg/__init__.py": "",
            "train.py": """
            import os, pathlib, shutil
            import pkg
            me = os.environ["MUSTER_RANK"]
            pathlib.Path(f"output-{me}").write_text("x")
            with open("train.py", "a") as file:
                file.write("# written by a rank\\n")
            pathlib.Path("pkg", f"new-{me}.py").touch()
            """,
        },
    )
    before = listing(job.parent)
    view = run_json(job)
    assert view["state"] == "succeeded", view["reason"]
    assert listing(job.parent) == before
    assert run_json(job)["state"] == "succeeded"
