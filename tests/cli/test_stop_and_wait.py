"""`muster stop` and `muster wait`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from going import background, going

from conftest import Muster, WriteJob, processes_with, until

SAVES = "trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
REFUSES = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def test_stop_waits_until_nothing_is_left(muster: Muster, write_job: WriteJob) -> None:
    with going(muster, write_job({"command": SAVES, "per": "device", "devices": 2, "grace": "60s"})) as run_id:
        done = muster("stop", run_id)
        assert not processes_with(f"MUSTER_RUN={run_id}")
    assert done.returncode == 0
    assert "its ranks have 1m to end" in done.stderr
    assert done.stdout == f"{run_id}  stopped: stopped by the user\n"
    assert muster("logs", run_id, "--rank", 1).stdout.endswith("saved\n")


def test_stop_now_gives_no_grace(muster: Muster, write_job: WriteJob) -> None:
    with going(muster, write_job({"command": REFUSES, "grace": "1h"})) as run_id:
        muster("stop", run_id, "--now")
        ranks = json.loads(muster("show", run_id, "--json").stdout)["attempts"][0]["ranks"]
    assert ranks[0]["signal"] == signal.SIGKILL


def test_stop_now_overtakes_a_stop_that_waits(muster: Muster, command: list[str], write_job: WriteJob) -> None:
    with (
        going(muster, write_job({"command": REFUSES, "grace": "1h"})) as run_id,
        background([*command, "stop", run_id]) as patient,
    ):
        until(lambda: json.loads(muster("show", run_id, "--json").stdout)["state"] == "stopping")
        assert muster("stop", run_id, "--now").returncode == 0
        stdout, _ = patient.communicate(timeout=30)
    assert patient.returncode == 0
    assert b"stopped: stopped by the user" in stdout


def test_an_ended_run_stays_as_it_is(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "exit 3"}))
    before = muster("show", "last", "--json").stdout
    done = muster("stop", "last")
    assert done.returncode == 0
    assert "has already ended: failed" in done.stderr
    assert muster("show", "last", "--json").stdout == before


@pytest.mark.conformance
@pytest.mark.parametrize(("text", "code"), [("sleep 0.3", 0), ("sleep 0.3; exit 9", 1)])
def test_wait_exits_as_run_would_have(muster: Muster, write_job: WriteJob, text: str, code: int) -> None:
    run_id = muster("run", write_job({"command": text}), "--detach").stdout.strip()
    done = muster("wait", run_id)
    assert done.returncode == code
    assert done.stdout.startswith(f"{run_id}  {'failed' if code else 'succeeded'}: ")


def test_wait_can_give_up(muster: Muster, write_job: WriteJob) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        done = muster("wait", run_id, "--timeout", "0.1")
        assert done.returncode == 124
        assert done.stdout == f"{run_id}  running\n"


def test_an_interrupted_wait_leaves_the_run_alone(muster: Muster, command: list[str], write_job: WriteJob) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        with background([*command, "wait", run_id]) as waiting:
            until(lambda: any("inotify" in link for link in _links(waiting.pid)))
            waiting.send_signal(signal.SIGINT)
            stdout, stderr = waiting.communicate(timeout=30)
        assert (waiting.returncode, stdout, stderr.strip()) == (130, b"", b"")
        assert json.loads(muster("show", run_id, "--json").stdout)["state"] == "running"


def test_an_interrupt_ends_with_130_wherever_it_comes(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(
        "from muster.cli import main\n\nmain.cli.main = lambda **_: exec('raise KeyboardInterrupt')\nmain.main()\n"
    )
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


IGNORED = """
import signal, time, weakref
from muster.cli import main

class Thing:
    pass

def command(**_):
    thing = Thing()
    weakref.finalize(thing, signal.raise_signal, signal.SIGINT).atexit = False
    del thing
    time.sleep(60)

main.cli.main = command
main.main()
"""


def test_an_interrupt_is_heard_also_where_python_ignores_exceptions() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def _links(pid: int) -> list[str]:
    """Where the descriptors of a process lead."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    return found
