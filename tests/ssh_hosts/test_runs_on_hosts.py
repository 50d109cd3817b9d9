"""Runs on hosts that share nothing, over real ssh: what a user sees is what the local engine shows."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import Muster, WriteJob, until
from host_machines import Machines
from muster.records.layout import RunDir
from traces import stored

RunJson = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.long

BOOT = {"python": "python3"}  # of the hosts
COUNTING = """
import os, sys, time
for number in range(400):
    print("line", number, flush=True)
    time.sleep(0.01)
"""
WAITING = "import signal\nprint('up', flush=True)\nsignal.pause()\n"


def run_dir(home: Path) -> RunDir:
    [path] = (home / "runs").iterdir()
    return RunDir(str(path))


def assert_counted(live: Live) -> None:
    """Both ranks have counted to the end, and every line is there once."""
    for node in (0, 1):
        log = Path(live.run.attempt(1).node(node).log(f"rank-{node}"))
        assert log.read_text() == "".join(f"line {number}\n" for number in range(400))


def test_ranks_on_hosts_know_each_other_and_the_run_directory_is_complete(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    on_hosts()
    train = """
    import os, socket
    print(socket.gethostname(), os.environ["MUSTER_RANK"], os.environ["MASTER_ADDR"], open("data.txt").read())
    if os.environ["MUSTER_RANK"] == "3":
        os.symlink("epoch-9", os.environ["MUSTER_RESULTS"] + "/latest")
    """
    view = run_json(
        write_job({**BOOT, "nodes": 2, "devices": 2, "framework": "pytorch"}, **{"train.py": train, "data.txt": "here"})
    )
    assert view["state"] == "succeeded", view["reason"]
    master = machines.address("h1")
    logs = {rank["rank"]: Path(rank["log"]).read_text() for rank in view["attempts"][0]["ranks"]}
    assert logs == {rank: f"h{1 + rank // 2} {rank} {master} here\n" for rank in range(4)}
    node = run_dir(home).attempt(1).node(1)
    assert {"facts.json", "plan.json", "exit.json", "events.jsonl", "logs"} <= set(os.listdir(node.path))
    assert os.readlink(f"{node.path}/results/latest") == "epoch-9"
    until(lambda: not machines.records("h1", view["run"]))  # what was delivered is deleted
    assert re.search(r"rank-3 +1 h2 +succeeded", muster("show", "last").stdout)


def test_a_rerun_takes_the_recorded_hosts_and_code(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    on_hosts("h3")
    first = run_json(write_job({**BOOT}, **{"train.py": "import socket\nprint('on', socket.gethostname())"}))
    assert first["state"] == "succeeded", first["reason"]
    (home / "config.toml").write_text('engine = "local"\n')
    again = muster("rerun", first["run"])
    assert again.returncode == 0, again.stderr
    assert "[0] on h3\n" in again.stdout


def test_agent_and_code_are_sent_once(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", directory="/root/kept")
    job = write_job({**BOOT}, **{"train.py": "print('hello')"})
    assert run_json(job)["state"] == "succeeded"
    blobs = machines.home("h1") / "kept/blobs"
    before = {path.name: path.stat().st_ino for path in blobs.iterdir()}
    assert run_json(job)["state"] == "succeeded"
    assert {path.name: path.stat().st_ino for path in blobs.iterdir()} == before
    assert len(before) == 2
    next(blobs.iterdir()).write_text("changed by a rank")
    assert run_json(job)["state"] == "succeeded", "what was changed is sent again"


def test_an_ordinary_user_of_the_hosts(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("trainer@h1", "trainer@h2:22")
    view = run_json(write_job({"nodes": 2, "command": "id -u; pwd"}))
    assert view["state"] == "succeeded", view["reason"]
    for rank in view["attempts"][0]["ranks"]:
        assert "4711" in Path(rank["log"]).read_text() or "0\n" in Path(rank["log"]).read_text()


@pytest.mark.parametrize("how", ["sessions", "network"])
def test_every_byte_comes_once_although_the_connection_breaks(
    how: str, machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts()
    with Live(command, write_job({**BOOT, "nodes": 2}, **{"train.py": COUNTING})) as live:
        until(lambda: "line 20\n" in live.logs())
        if how == "sessions":
            machines.break_connections("h2")
            until(lambda: live.logs().count("line 120\n") >= 1)
            machines.break_connections("h1")
        else:
            machines.cut("h2")
            time.sleep(1)
            machines.mend("h2")
        view = live.end()
    assert view["state"] == "succeeded", view["reason"]
    assert_counted(live)


def test_a_host_that_is_cut_off_for_too_long_is_lost_and_ends_its_ranks_itself(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts(lost_after="3s")
    with Live(command, write_job({**BOOT, "nodes": 2, "grace": "1s"}, **{"train.py": WAITING})) as live:
        live.until_running(2)
        machines.cut("h2")
        try:
            view = live.end()
            until(lambda: not machines.left())
        finally:
            machines.mend("h2")
    assert (view["state"], view["attempts"][0]["cause"]) == ("lost", "lost")
    assert "h2" in view["reason"]
    assert "3s" in view["reason"]


def test_a_host_whose_power_is_cut_is_named(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts(lost_after="3s")
    with Live(command, write_job({**BOOT, "nodes": 2, "grace": "1s"}, **{"train.py": WAITING})) as live:
        live.until_running(2)
        machines.power_off("h2")
        try:
            view = live.end()
        finally:
            machines.boot("h2")
    assert view["state"] == "lost"
    assert "h2" in view["reason"]
    [warning] = view["warnings"]
    assert f"may be missing: its host did not come back; see h2:~/.muster/nodes/1/runs/{live.run.id}" in warning


@pytest.mark.parametrize("unwritten", [False, True])
def test_a_host_that_comes_back_after_a_power_cut_still_gives_what_it_has_and_takes_nothing_back(
    unwritten: bool, machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    """Its disk may lack what was written shortly before, although it had arrived here."""
    on_hosts(lost_after="30s")
    with Live(command, write_job({**BOOT, "nodes": 2, "grace": "1s"}, **{"train.py": COUNTING})) as live:
        until(lambda: live.logs().count("line 50\n") == 2)
        machines.power_off("h2")
        if unwritten:
            [record] = machines.records("h2", live.run.id)
            os.truncate(record / "attempts/1/nodes/1/logs/rank-1.log", 100)
        machines.boot("h2")
        view = live.end()
    assert view["state"] == "lost"
    assert "h2" in view["reason"]
    assert "line 50\n" in Path(live.run.attempt(1).node(1).log("rank-1")).read_text()
    named = "logs/rank-1.log (less of it is left there than had arrived here before)"
    assert any(named in warning for warning in view["warnings"]) is unwritten, view["warnings"]


def test_a_supervisor_that_is_started_again_takes_its_agents_over(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts()
    with Live(command, write_job({**BOOT, "nodes": 2}, **{"train.py": COUNTING}), "--detach") as live:
        until(lambda: "line 20\n" in live.logs())
        os.kill(live.supervisor, signal.SIGKILL)
        said = muster("reconcile", live.run.id)
        assert said.returncode == 0, said.stderr
        done = muster("wait", live.run.id)
        assert done.returncode == 0, done.stdout + done.stderr
    assert_counted(live)
    assert live.run.attempt_numbers() == [1]


def test_a_stop_is_heard_beside_logs_that_fill_the_connection(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts("h1")
    flood = "import os\nline = b'x' * 999 + b'\\n'\nos.write(1, b'up\\n')\nwhile True:\n    os.write(1, line * 64)\n"
    with Live(command, write_job({**BOOT, "grace": "1s"}, **{"train.py": flood})) as live:
        live.until_running()
        assert muster("stop", live.run.id).returncode == 0
        assert live.end()["state"] == "stopped"


def test_a_detached_run_says_that_it_needs_this_machine(
    machines: Machines, on_hosts: Callable[..., None], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts("h1")
    done = muster("run", write_job({"command": "true"}), "--detach")
    assert "needs this machine to stay up" in done.stderr
    assert muster("wait", done.stdout.strip()).returncode == 0


LYING = """#!/usr/bin/python3
import json, os, struct, sys, time
if sys.argv[1:] == ["-V"]:
    sys.exit(print("Python 3.9.2"))
sent = json.dumps(SENT).encode()
os.write(1, b'\\nMUSTER-HOST {"agent": true}\\n' + struct.pack(">cI", b"M", len(sent)) + sent)
time.sleep(SECONDS)
"""


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ({"say": "unfit", "reason": "long " * 10000}, "h1: long long "),
        ({"say": "ready"}, "h1: it sent what it may not: `ready` before its first word"),
        ({"say": "unfit", "self": "of a method", "reason": "told"}, "h1: told"),
    ],
)
def test_a_host_that_says_what_it_may_not_costs_one_bounded_sentence(
    machines: Machines,
    on_hosts: Callable[..., None],
    run_json: RunJson,
    write_job: WriteJob,
    muster: Muster,
    sent: dict[str, str],
    seen: str,
) -> None:
    program = machines.home("h1") / "lying.py"
    program.write_text(LYING.replace("SENT", repr(sent)).replace("SECONDS", "2"))
    program.chmod(0o755)
    on_hosts("h1", python="/root/lying.py")
    view = run_json(write_job({**BOOT, "device": "cpu"}, **{"train.py": "pass"}))
    assert view["state"] == "failed"
    assert view["reason"].startswith(seen)
    assert len(view["reason"]) < 2000
    assert seen in muster("ps").stdout


def test_what_nobody_has_used_for_long_is_deleted_on_hosts(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", directory="/root/aged")
    job = write_job({**BOOT}, **{"train.py": "print('hello')"})
    assert run_json(job)["state"] == "succeeded"
    place = machines.home("h1") / "aged"
    agent, code = sorted(place.glob("blobs/*"), key=lambda path: path.stat().st_size, reverse=True)
    kept, old = place / "nodes/0/runs/kept", place / "nodes/3/runs/old"
    for run in (kept, old):
        (run / "attempts/1/nodes/0/logs").mkdir(parents=True)
        (run / "attempts/1/nodes/0/logs/rank-0.log").write_text("not delivered\n")
    long_ago = time.time() - 15 * 86400
    for path in (agent, code, *old.rglob("*"), old, kept):
        os.utime(path, (long_ago, long_ago))
    (job.parent / "train.py").write_text("print('other code')")
    assert run_json(job)["state"] == "succeeded"
    assert agent.exists(), "it was used by this run"
    assert not code.exists()
    assert kept.exists(), "its log was written to a moment ago"
    assert not old.exists()


RETRIED = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt = os.environ["MUSTER_ATTEMPT"]
with open(sys.argv[1].split("=", 1)[1] + "/attempt-" + attempt + "-of-" + os.environ["MUSTER_NODE"], "w") as file:
    file.write("kept")
print("up", flush=True)
while True:
    with open("/root/ticks", "a") as file:
        file.write(attempt + "\\n")
    if attempt == "2":
        sys.exit()
    time.sleep(0.02)
"""


def test_a_new_attempt_begins_when_the_ranks_of_a_lost_host_have_ended_and_nothing_of_those_is_uploaded(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", lost_after="3s")
    ticks = machines.home("h2") / "ticks"
    fields = {**BOOT, "nodes": 2, "grace": "2s", "retries": 1, "retry_on": ["lost"], "outputs": {"out": "obs://b/out"}}
    with Live(command, write_job(fields, **{"train.py": RETRIED})) as live:
        live.until_running(2)
        machines.cut("h2")
        try:
            until(lambda: '"lost"' in Path(live.run.events).read_text())
        finally:
            machines.mend("h2")
        view = live.end()
    assert (view["state"], len(view["attempts"])) == ("succeeded", 2), view["reason"]
    found = ticks.read_text().split()
    assert found == sorted(found), "no rank of the first attempt lived beside one of the second"
    assert found[-1] == "2"
    assert (
        {"attempt-2-of-0", "attempt-2-of-1"}
        <= set(stored("obs://b/out"))
        <= {
            "attempt-1-of-0",  # of the host that was not lost, before the second attempt
            "attempt-2-of-0",
            "attempt-2-of-1",
        }
    )


def test_a_host_that_is_away_for_less_than_lost_after_ends_nothing(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    """Also where its connection was given up meanwhile."""
    on_hosts(lost_after="60s")
    with Live(command, write_job({**BOOT, "nodes": 2}, **{"train.py": COUNTING})) as live:
        until(lambda: live.logs().count("line 20\n") == 2)
        machines.cut("h2")
        try:
            until(lambda: '"link-broken"' in Path(live.run.events).read_text())
        finally:
            machines.mend("h2")
        view = live.end()
    assert (view["state"], len(view["attempts"])) == ("succeeded", 1), view["reason"]
    assert_counted(live)


def test_a_submitter_that_is_started_again_before_lost_after_takes_its_ranks_over(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts(lost_after="60s")
    with Live(command, write_job({**BOOT, "nodes": 2}, **{"train.py": COUNTING}), "--detach") as live:
        until(lambda: live.logs().count("line 20\n") == 2)
        os.kill(live.supervisor, signal.SIGKILL)
        record = json.loads(Path(live.run.run).read_text())
        pid, begun, _, *rest = record["handle"].split(":")
        Path(live.run.run).write_text(json.dumps({**record, "handle": ":".join([pid, begun, "an-earlier-boot", *rest])}))
        said = json.loads(muster("show", live.run.id, "--json").stdout)
        assert said["state"] == "pending" and "was restarted" in said["reason"]
        assert muster("reconcile", live.run.id).returncode == 0
        done = muster("wait", live.run.id)
        assert done.returncode == 0, done.stdout + done.stderr
    assert_counted(live)
    assert live.run.attempt_numbers() == [1]
