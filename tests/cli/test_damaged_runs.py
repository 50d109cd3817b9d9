"""A run whose record is damaged is shown as such, can be removed, and keeps nobody from seeing the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from going import going
from recorded import Recorded

from conftest import Muster, WriteJob, processes_with, until
from forked_command import ForkedCommand
from muster.launch import api, gc, views
from muster.launch.run_store import RunStore
from muster.records.run_view import ENDED

DEEP = '{"a":' * 100_000
OTHER_SHAPES = ("[]", "{}", "", '{"event": 1}', '{"state": [], "attempts": {}, "a": "\\ud800"}')
FILES = (
    *("job.json", "run.json", "final.json", "events.jsonl", "stop.json", "kill.json", "supervisor.log"),
    *("attempts/1/world.json", "attempts/1/meet/stop", "attempts/1/nodes/0/exit.json", "attempts/1/nodes/0/facts.json"),
    *("attempts/1/nodes/0/events.jsonl", "attempts/1/nodes/0/plan.json", "attempts/1/nodes/0/metrics.jsonl"),
    *("attempts", "attempts/1", "attempts/1/meet", "attempts/1/nodes", "attempts/1/nodes/0"),
)


def write(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "itself": lambda path: path.symlink_to(path.name),
    "deep": write(DEEP),
    "bytes": lambda path: path.write_bytes(b"\xff\0\xfe" * 9),
    **{f"says {text}": write(text) for text in OTHER_SHAPES},
    "gone": lambda path: None,
}
AT_A_DESK = ("directory", "itself", "says []", "gone")  # one of each sort; each takes seconds


def damage(run: Path, name: str, how: str) -> None:
    """Puts something else in the place of a file of a record."""
    path = run / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if path.parent.is_dir():
        DAMAGES[how](path)


@pytest.fixture(scope="module")
def recorded(forked_command: ForkedCommand, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    text = "import os\nopen(os.environ['MUSTER_RESULTS'] + '/throughput_0.json', 'w').write('12.5')\n"
    fields = {"boot": "train.py", "python": sys.executable}
    return Recorded(forked_command, tmp_path_factory.mktemp("recorded"), fields, **{"train.py": text})


@pytest.fixture
def ended(recorded: Recorded, home: Path) -> Path:
    """The directory of a run that has ended."""
    return recorded.copied(home)


def copies(ended: Path, how: str) -> dict[str, str]:
    """Copies of a run, each with another of its files damaged in one way: the file by the id of the run."""
    found = {}
    for number, name in enumerate(FILES):
        copy = ended.with_name(f"job-20260101-{number:06}-{how.encode().hex()[:4]}")
        shutil.copytree(ended, copy, symlinks=True)
        (copy / "final.json").write_text((ended / "final.json").read_text().replace(ended.name, copy.name))
        damage(copy, name, how)
        if (copy / "run.json").exists() and (copy / "job.json").exists():
            found[copy.name] = name
    return found


@pytest.mark.parametrize("how", [pytest.param(how, marks=() if how in AT_A_DESK else pytest.mark.long) for how in DAMAGES])
def test_a_damaged_record_is_shown_and_can_be_removed(how: str, ended: Path, muster: Muster) -> None:
    damaged = copies(ended, how)
    listed = muster("ps", "--all", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    shown = {view["run"]: view for view in json.loads(listed.stdout)}
    assert {ended.name, *damaged} <= {*shown}
    assert (shown[ended.name]["state"], shown[ended.name]["result"]["throughput"]["value"]) == ("succeeded", 12.5)
    for run_id, name in damaged.items():
        view = shown[run_id]
        assert view["state"] in ENDED, (name, view)
        if view["state"] == "damaged":
            assert f"muster rm {run_id}" in view["reason"]
        run = api.get(run_id)
        assert run.details()["run"] == run_id
        assert run.wait(0) in ENDED
    assert muster("ps", "--all").returncode == 0
    assert muster("prune", "--older", "0s", "--dry-run").returncode == 0
    assert muster("rm", *damaged).returncode == 0
    assert [run.id for run in api.list_runs() if run.id in damaged] == []


@pytest.mark.parametrize("how", ["fifo", "says []"])
@pytest.mark.parametrize("name", ["job.json", "run.json", "attempts/1/nodes/0/exit.json"])
def test_every_command_about_a_damaged_run_says_something_and_ends(how: str, name: str, ended: Path, muster: Muster) -> None:
    damage(ended, name, how)
    shown = [("show",), ("show", "--json"), ("logs",), ("report", "--md")]
    for words in (*shown, ("wait", "--timeout", "5s"), ("rerun", "--check")):
        done = muster(words[0], "last", *words[1:])
        assert done.returncode in (0, 1, 2), (words, done.stderr)
        assert "Traceback" not in done.stderr
        assert "defect of Muster" not in done.stderr, (words, done.stderr)


def test_the_reason_names_the_file_and_what_to_do(ended: Path, muster: Muster) -> None:
    (ended / "final.json").unlink()
    damage(ended, "job.json", "says []")
    damage(ended, "attempts/1/meet/stop", "says {}")
    (ended / "attempts/1/meet/stop").write_text('{"cause": 3}')
    (ended / "events.jsonl").write_text('{"event": "attempt", "attempt": 1}\n{"event": "ended"}\n')
    shown = muster("show", ended.name).stdout
    assert f"{ended.name}  damaged: its record is damaged: job.json cannot be read: it is not a JSON object" in shown
    assert f"look into {ended}, then `muster rm {ended.name}` deletes it" in shown


def test_a_record_with_a_wrong_end_is_derived_again(ended: Path, muster: Muster) -> None:
    damage(ended, "final.json", "deep")
    until(lambda: "succeeded" in muster("ps").stdout)  # once its supervisor is gone
    assert muster("reconcile").returncode == 0
    assert json.loads((ended / "final.json").read_text())["state"] == "succeeded"


def test_a_living_run_with_a_damaged_record_is_not_lost(muster: Muster, write_job: WriteJob, home: Path) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        shutil.copy(home / "runs" / run_id / "run.json", home / "kept")
        for how in ("fifo", "deep", "says []"):
            damage(home / "runs" / run_id, "run.json", how)
            (view,) = views.views([api.get(run_id)])
            assert view.state == "running", view
            assert muster("rm", run_id).returncode == 2
        (home / "runs" / run_id / "run.json").unlink()
        shutil.move(home / "kept", home / "runs" / run_id / "run.json")


def test_leftovers_of_a_damaged_run_are_killed_before_it_is_removed(muster: Muster, write_job: WriteJob, home: Path) -> None:
    config = home / "config.toml"
    home.mkdir(exist_ok=True)
    config.write_text("[local]\nnamespaces = false\n")
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        supervisor = int(json.loads((home / "runs" / run_id / "run.json").read_text())["handle"].split(":")[0])
        damage(home / "runs" / run_id, "job.json", "says []")
        os.kill(supervisor, signal.SIGKILL)
        assert muster("reconcile").returncode == 0
        assert not processes_with(f"MUSTER_RUN={run_id}")
        assert muster("rm", run_id).returncode == 0


def test_a_bench_that_lists_anything_harms_nobody(ended: Path, home: Path, muster: Muster) -> None:
    for name, text in enumerate(('{"created": "x", "runs": 3}', "[]", DEEP, '{"runs": [{}, "../../etc"]}')):
        folder = home / "benches" / f"b-20260101-000000-{name}"
        folder.mkdir(parents=True)
        (folder / "bench.json").write_text(text)
    assert muster("ps").returncode == 0
    cleared = gc.Cleared()
    gc.unused(RunStore(str(home)), cleared)
    assert not cleared.left
    assert muster("show", "last").returncode == 0
    assert muster("rm", "last").returncode == 0


@pytest.mark.parametrize(("name", "how"), [("events.jsonl", "fifo"), ("attempts/1/nodes", "itself")])
def test_a_report_names_what_it_cannot_read(name: str, how: str, ended: Path, muster: Muster) -> None:
    damage(ended, name, how)
    done = muster("report", "last")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert "the record of the run is damaged" in line and name in line, line
    assert "check the disk" not in line


def test_a_page_that_cannot_be_written_says_so(ended: Path, muster: Muster) -> None:
    (ended / "report.html").mkdir()
    for words in ([], ["--html", ended / "no" / "page"], ["--csv", "-o", ended]):
        done = muster("report", "last", *words)
        assert done.returncode == 2
        assert "cannot be written" in done.stderr and "name another file" in done.stderr
        assert "check the disk" not in done.stderr


@pytest.mark.parametrize("how", ["fifo", "says []", "says {}", "deep"])
@pytest.mark.parametrize("names", [["bench.json", "result.json"], ["bench.json"], ["result.json"]])
def test_a_damaged_bench_says_which_file(names: list[str], how: str, ended: Path, home: Path, muster: Muster) -> None:
    folder = home / "benches" / "b-20260101-000000-abcd"
    folder.mkdir(parents=True)
    made = {"format": "muster-bench/1", "id": folder.name, "name": "b", "created": 1.0, "repeats": 1, "runs": [ended.name]}
    (folder / "bench.json").write_text(json.dumps(made))
    for name in names:
        damage(folder, name, how)
    done = muster("report", folder.name, "--md")
    assert "defect" not in done.stderr and "check the disk" not in done.stderr
    if "bench.json" in names:
        assert done.returncode == 2
        assert any(f"{folder / name} " in done.stderr for name in names)


def test_a_bench_that_lists_no_runs_keeps_no_report_back(ended: Path, home: Path, muster: Muster) -> None:
    folder = home / "benches" / "b-20260101-000000-abcd"
    folder.mkdir(parents=True)
    (folder / "bench.json").write_text('{"created": 1, "runs": 3}')
    done = muster("report", "last", "--md")
    assert done.returncode == 0, done.stderr


def test_a_rank_that_loses_the_job_makes_no_run_of_one_rank(muster: Muster, write_job: WriteJob) -> None:
    text = "import os\nopen(os.environ['MUSTER_SHARED'] + '/../job.json', 'w').write('[]')\n"
    view = json.loads(muster("run", write_job({"per": "device", "devices": 2}, **{"train.py": text}), "--json").stdout)
    assert view["state"] == "damaged"
    assert "job.json cannot be read: it is not a JSON object" in view["reason"]
