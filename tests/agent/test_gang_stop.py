"""When the gang is stopped: SIGTERM to every process group, the job's grace, then SIGKILL; nothing stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from behaviour import NodeName
from conftest import Muster, WriteJob, processes_with, until

RunJson = Callable[..., dict[str, Any]]

PATIENT = """
import os, signal, sys, time
def stop(number, frame):
    print("told", signal.Signals(number).name, flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
while True:
    time.sleep(1)
"""
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
GANG = {"per": "device", "nodes": 2, "devices": 2}


def nothing_left(view: dict[str, Any]) -> bool:
    return not processes_with(f"MUSTER_RUN={view['run']}")


@pytest.mark.conformance(not_on_hosts="its ranks meet in MUSTER_SHARED, which each host has for itself")
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_one_rank_that_fails_stops_all_others(
    failing: int, containment: str, run_json: RunJson, write_job: WriteJob, node_name: NodeName
) -> None:
    fail = f"""
    import os, pathlib, sys, time
    shared = pathlib.Path(os.environ["MUSTER_SHARED"])
    if os.environ["MUSTER_RANK"] == "{failing}":
        while len(list(shared.iterdir())) < 3:
            time.sleep(0.01)
        sys.exit(7)
    """
    train = fail.replace("\n    ", "\n") + PATIENT.replace('print("up", flush=True)', "(shared / str(os.getpid())).touch()")
    train = train.replace("str(os.getpid())", 'os.environ["MUSTER_RANK"]')
    view = run_json(write_job(GANG, **{"train.py": train}))
    assert view["reason"] == f"rank {failing} on {node_name(failing // 2)} exited with code 7"
    ranks = view["attempts"][0]["ranks"]
    assert [rank["state"] for rank in ranks] == ["failed" if rank["rank"] == failing else "stopped" for rank in ranks]
    assert [rank["code"] for rank in ranks] == [7 if rank["rank"] == failing else 3 for rank in ranks]
    told = [Path(rank["log"]).read_text() for rank in ranks if rank["rank"] != failing]
    assert told == ["told SIGTERM\n"] * 3
    assert view["failure"]["others"] == []


@pytest.mark.conformance
def test_who_does_not_listen_is_killed_after_the_grace(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({**GANG, "grace": "300ms"}, **{"train.py": DEAF})) as live:
        live.until_running(4)
        live.interrupt()
        view = live.end()
        assert (view["exit"], view["state"]) == (130, "stopped")
        assert [process["signal"] for process in live.processes] == [signal.SIGKILL] * 4
        assert nothing_left(view)


def test_a_rank_whose_first_thread_has_ended_has_an_end(containment: str, command: list[str], write_job: WriteJob) -> None:
    """Slow frameworks end like this: the process looks dead before all of its threads are gone."""
    headless = DEAF.replace("while True:", "threading.Thread(target=time.sleep, args=(1000,)).start()\nwhile True:")
    headless = headless.replace("signal.pause()", "time.sleep(0.01); os.path.exists('/proc/self/cwd/go') and end(None)")
    headless = f"import ctypes, os, threading, time\nend = ctypes.CDLL(None).pthread_exit\n{headless}"
    with Live(command, write_job({"grace": "300ms"}, **{"train.py": headless})) as live:
        live.until_running()
        rank = Path(f"/proc/{live.rank(0)}")
        (rank / "cwd/go").touch()
        until(lambda: (rank / "stat").read_text().split()[2] == "Z")
        live.interrupt()
        view = live.end()
        assert [process["signal"] for process in live.processes] == [signal.SIGKILL]
        assert nothing_left(view)


def test_a_rank_has_all_of_its_grace(containment: str, command: list[str], write_job: WriteJob) -> None:
    slow = PATIENT.replace("sys.exit(3)", "time.sleep(1.5); print('saved', flush=True); sys.exit(0)")
    with Live(command, write_job({**GANG, "grace": "60s"}, **{"train.py": slow})) as live:
        live.until_running(4)
        live.interrupt()
        assert live.end()["state"] == "stopped"
        assert live.logs().count("told SIGTERM\nsaved\n") == 4


def test_no_grace_means_at_once(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({"grace": "0s"}, **{"train.py": DEAF})) as live:
        live.until_running()
        live.interrupt()
        assert live.end()["state"] == "stopped"


def test_a_stopped_process_is_woken_so_that_it_can_end(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({"grace": "60s"}, **{"train.py": PATIENT})) as live:
        live.until_running()
        os.kill(live.rank(0), signal.SIGSTOP)
        live.interrupt()
        assert live.end()["state"] == "stopped"
        assert live.log().endswith("told SIGTERM\n")


FAMILY = """
import os, signal, subprocess, sys, time

def beat(name):
    # A process that neither listens nor has anything to do with its parent any more.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with open(os.path.join(os.environ["MUSTER_SHARED"], f"{name}-{os.environ['MUSTER_RANK']}"), "w"):
        pass
    while True:
        time.sleep(0.05)

def double_fork(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            beat(name)
        os._exit(0)
    os.wait()

if os.fork() == 0:
    beat("child")
double_fork("daemon")
if os.fork() == 0:
    os.setpgid(0, 0)
    beat("group")
if os.fork() == 0:
    os.environ.clear()
    os.execv("/bin/sh", ["sh", "-c", "trap '' TERM; while true; do sleep 0.05; done"])
subprocess.Popen(["bash", "-c", "trap '' TERM HUP; (setsid sleep 1001 &) ; sleep 1002"])
subprocess.Popen(["env", "-i", "setsid", "sleep", "1003"])
"""


def family_left(live: Live) -> list[str]:
    """Whatever lives of a run, also what has neither its environment nor its parents: by where it works and writes."""
    found = []
    for name in os.listdir("/proc"):
        try:
            links = [os.readlink(f"/proc/{name}/{link}") for link in ("cwd", "fd/1")] if name.isdigit() else []
        except OSError:
            continue
        if any(live.run.id in link for link in links):
            found.append(name)
    return found


@pytest.mark.conformance(not_on_hosts="its ranks meet in MUSTER_SHARED, which each host has for itself")
@pytest.mark.parametrize("ending", ["failure", "success", "interrupt", "stop"])
def test_grandchildren_daemons_and_shells_die_too(
    ending: str, containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    wait = """
while len(os.listdir(os.environ["MUSTER_SHARED"])) < 6:
    time.sleep(0.01)
print("up", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
"""
    end = {"failure": "sys.exit(1)", "success": "", "interrupt": "signal.pause()", "stop": "signal.pause()"}[ending]
    job = write_job({"nodes": 2, "grace": "300ms"}, **{"train.py": FAMILY + wait + end})
    go = job.with_name("go")
    with Live(command, job, GO=str(go)) as live:
        live.until_running(2)
        assert len(family_left(live)) >= 2 * 8
        go.touch()
        if ending == "interrupt":
            live.interrupt()
        elif ending == "stop":
            muster("stop", live.run.id)
        view = live.end()
        assert view["state"] == {"failure": "failed", "success": "succeeded"}.get(ending, "stopped")
        until(lambda: not family_left(live))  # the supervisor itself needs a moment after its last word
        assert nothing_left(view)


@pytest.mark.parametrize("renewing", ["", "os.setsid()"])
def test_a_process_that_runs_away_from_itself_is_caught(
    renewing: str, containment: str, command: list[str], write_job: WriteJob
) -> None:
    runaway = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    while True:
        if os.fork():
            os._exit(0)
        {renewing or "pass"}
print("up", flush=True)
time.sleep(1000)
"""
    with Live(command, write_job({"grace": "100ms"}, **{"train.py": runaway})) as live:
        live.until_running()
        live.interrupt()
        view = live.end()
        assert view["state"] == "stopped"
        assert nothing_left(view)
        until(lambda: not family_left(live))  # the supervisor itself needs a moment after its last word


@pytest.mark.conformance
def test_muster_stop_gives_grace_and_waits_until_nothing_is_left(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob, stopper: str
) -> None:
    with Live(command, write_job(GANG, **{"train.py": PATIENT})) as live:
        live.until_running(4)
        done = muster("stop", live.run.id)
        assert done.returncode == 0
        assert f"stopped by {stopper}" in done.stdout
        view = live.end()
        assert (view["exit"], view["state"], view["reason"]) == (130, "stopped", f"stopped by {stopper}")
        assert live.logs().count("told SIGTERM") == 4


@pytest.mark.conformance
def test_muster_stop_now_kills_at_once_also_after_a_patient_stop(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job({**GANG, "grace": "10h"}, **{"train.py": DEAF})) as live:
        live.until_running(4)
        Path(live.run.stop).write_text('{"reason": "asked nicely"}')
        until(lambda: live.state == "stopping")
        done = muster("stop", live.run.id, "--now")
        assert done.returncode == 0
        view = live.end()
        assert (view["exit"], view["state"], view["reason"]) == (130, "stopped", "asked nicely")


def test_a_second_interrupt_means_now(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({**GANG, "grace": "10h"}, **{"train.py": DEAF})) as live:
        live.until_running(4)
        live.interrupt()
        until(lambda: live.state == "stopping")
        assert live.command.poll() is None
        live.interrupt()
        view = live.end()
        assert (view["exit"], view["state"]) == (130, "stopped")
        assert "Ctrl-C" in view["reason"]


@pytest.mark.conformance
def test_a_run_can_be_stopped_before_its_ranks_start(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job({"nodes": 2, "setup": "echo up; sleep 1000", "command": "true"})) as live:
        until(lambda: live.logs().count("up\n") == 2)
        assert muster("stop", live.run.id).returncode == 0
        view = live.end()
        assert view["state"] == "stopped"
        assert [process["state"] for process in live.processes] == ["pending", "pending"]
        assert nothing_left(view)


def test_a_rank_that_is_done_early_does_not_end_the_run(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    command = "test $MUSTER_RANK != 3 || sleep 0.5; echo done"
    view = run_json(write_job({**GANG, "command": command}))
    assert view["state"] == "succeeded"
    assert [rank["state"] for rank in view["attempts"][0]["ranks"]] == ["succeeded"] * 4


@pytest.mark.conformance
def test_the_time_limit_stops_the_gang_and_fails_the_run(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({**GANG, "time_limit": "6s", "retries": 3}, **{"train.py": PATIENT})) as live:
        view = live.end()
        assert (view["exit"], view["state"]) == (1, "failed")
        assert view["reason"] == "it took longer than its time limit of 6s"
        assert len(view["attempts"]) == 1
        assert live.logs().count("told SIGTERM") == 4
        assert nothing_left(view)


def test_the_time_limit_holds_over_all_attempts(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "sleep 0.2; exit 1", "time_limit": "4s", "retries": 1000}))
    assert "it took longer than its time limit of 4s" in view["reason"]
    assert 1 < len(view["attempts"]) < 1000
