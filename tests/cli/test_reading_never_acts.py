"""Commands that show runs change nothing, whatever state a run is in: they work where they cannot write."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from going import background, going, until_ready

from conftest import Muster, WriteJob, gone

# Runs every command line in a child of its own, as if it was typed; prints exit codes, outputs and errors.
LOOK = """
import json, os, sys, tempfile
from muster.bench.report import sources  # and what else would be imported by every child
from muster.bench.report.formats import as_markdown
from muster.cli import logs_command, main, ps_command, report_command, show_command
said = []
for words in json.loads(sys.argv[1]):
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    child = os.fork()
    if child == 0:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.argv = ["muster", *words]
        main.main()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
    said.append([words, code, *texts])
print(json.dumps(said))
"""
READ_ONLY = 'mount --bind "$MUSTER_HOME" "$MUSTER_HOME" && mount -o remount,ro,bind "$MUSTER_HOME" && exec "$@"'
ELSEWHERE = "1:1:00000000:1:another-machine"  # a supervisor that counts as alive
DEAD = f"1:1:00000000:1:{os.uname().nodename}"  # one from before the machine was restarted
ENDED = ("succeeded", "failed", "stopped", "lost", "unreconciled", "damaged")


def files(folder: Path) -> dict[str, Any]:
    """Everything below a folder: what it is, when it was changed and what it holds."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ctime_ns, content)
    return found


@pytest.fixture
def read_only(home: Path) -> Iterator[list[str]]:
    """The beginning of a command line that runs a program where the home cannot be written."""
    for words in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        found = [*words, "sh", "-c", READ_ONLY, "sh"]
        home.mkdir(exist_ok=True)
        if subprocess.run([*found, "sh", "-c", '! touch "$MUSTER_HOME/x" 2> /dev/null'], capture_output=True).returncode == 0:
            yield found
            return
    if os.geteuid() == 0:
        pytest.skip("root can write everywhere, and nothing can be mounted here")
    yield ["sh", "-c", 'chmod -R a-w "$MUSTER_HOME" && exec "$@"', "sh"]
    subprocess.run(["chmod", "-R", "u+w", str(home)], check=True)


def lose(muster: Muster, job: Path, home: Path) -> str:
    """A run whose supervisor was killed, and which nobody has reconciled."""
    run_id = muster("run", job, "--detach").stdout.strip()
    until_ready(run_id)
    kill_supervisor(home / "runs" / run_id)
    return run_id


def kill_supervisor(run: Path) -> None:
    os.kill(int(json.loads((run / "run.json").read_text())["handle"].split(":")[0]), signal.SIGKILL)
    assert not gone(f"MUSTER_RUN={run.name}")


@pytest.fixture
def runs(muster: Muster, write_job: WriteJob, home: Path) -> dict[str, str]:
    """One run in every state, by the state; those that live do so on another machine, and stand still."""
    found = {}
    for state, command in (("succeeded", "echo well"), ("failed", "echo no; exit 3")):
        found[state] = json.loads(muster("run", write_job({"command": command}), "--json").stdout)["run"]
    hang = write_job({"command": "echo ready; sleep 1000"})
    with going(muster, hang) as run_id:
        found["stopped"] = run_id
    found["lost"] = lose(muster, hang, home)
    assert muster("reconcile", found["lost"]).returncode == 0
    found["unreconciled"] = lose(muster, hang, home)
    template = home / "runs" / found["succeeded"]

    def write(state: str, handle: str, **files: str) -> None:
        found[state] = f"{state}-20260101-000000-abcd"
        folder = home / "runs" / found[state]
        folder.mkdir()
        shutil.copy(template / "job.json", folder)
        (folder / "run.json").write_text(json.dumps({**json.loads((template / "run.json").read_text()), "handle": handle}))
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    begun = {"events.jsonl": '{"time": 1767225600, "event": "attempt", "attempt": 1}\n', "attempts/1/nodes/0/facts.json": "{}"}
    up = {
        **begun,
        "attempts/1/world.json": "{}",
        "attempts/1/nodes/0/up.json": "{}",
        "attempts/1/nodes/0/logs/main.log": "well\n",
    }
    write("pending", ELSEWHERE)
    write("starting", ELSEWHERE, **begun)
    write("running", ELSEWHERE, **up)
    write("stopping", ELSEWHERE, **up, **{"stop.json": '{"reason": "enough", "time": 1767225601}'})
    write("damaged", DEAD, **{"job.json": "[]"})
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_state_can_be_read_where_nothing_can_be_written(
    runs: dict[str, str], read_only: list[str], home: Path, tmp_path: Path
) -> None:
    before = files(home)
    looks = [("show", "--json"), ("show",), ("logs", "--all"), ("report", "--md")]
    words = [["ps"], ["ps", "--json"], *([name, run, *more] for run in runs.values() for name, *more in looks)]
    program = [*read_only, sys.executable, "-c", LOOK, json.dumps(words)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=240)
    assert done.returncode == 0, done.stderr
    assert files(home) == before
    said = {tuple(words): (code, out, err) for words, code, out, err in json.loads(done.stdout)}
    shown = {state: "lost" if state == "unreconciled" else state for state in runs}
    listed = {view["run"]: view["state"] for view in json.loads(said["ps", "--json"][1])}
    assert listed == {runs[state]: shown[state] for state in runs}
    for state, run in runs.items():
        assert said["show", run][0] == 0, said["show", run]
        assert json.loads(said["show", run, "--json"][1])["state"] == shown[state]
        assert said["logs", run, "--all"][0] == 0, said["logs", run, "--all"]
        expected = 1 if state == "damaged" else 0 if state in ENDED else 2
        assert said["report", run, "--md"][0] == expected, said["report", run, "--md"]
    assert "was lost: its supervisor" in said["report", runs["unreconciled"], "--md"][1]
    assert not [words for words, (_, out, err) in said.items() if "Read-only" in out + err or "defect" in out + err]


def test_what_is_left_to_do_is_said(muster: Muster, write_job: WriteJob, home: Path) -> None:
    run_id = lose(muster, write_job({"command": "echo ready; sleep 1000"}), home)
    assert "`muster reconcile`" in muster("ps").stderr
    assert f"`muster reconcile {run_id}`" in muster("show", run_id).stdout
    derived = json.loads(muster("show", run_id, "--json").stdout)
    assert derived["reason"].endswith("was killed")
    assert muster("reconcile").returncode == 0
    assert json.loads(muster("show", run_id, "--json").stdout) == derived
    assert "reconcile" not in muster("ps").stderr + muster("show", run_id).stdout


def test_following_ends_with_a_run_that_was_lost_and_writes_nothing(
    muster: Muster, write_job: WriteJob, home: Path, command: list[str]
) -> None:
    run_id = muster("run", write_job({"command": "echo ready; sleep 1000"}), "--detach").stdout.strip()
    until_ready(run_id)
    with background([*command, "logs", run_id, "-f"]) as follower:
        assert follower.stdout and follower.stdout.readline() == b"ready\n"
        kill_supervisor(home / "runs" / run_id)
        assert follower.wait(60) == 0
    assert not (home / "runs" / run_id / "final.json").exists()
