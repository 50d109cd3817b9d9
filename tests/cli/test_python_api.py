"""The Python API in programs: types, threads, several runs at once, and nothing left open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any, assert_type

import pytest
from going import only_run, until_ready

import muster
from conftest import WriteJob, gone, until
from muster.launch import run as run_module

WAITS = {"command": "echo ready; sleep 1000", "device": "cpu"}
QUICK = {"command": "echo $MUSTER_RANK", "device": "cpu", "per": "device", "devices": 2}


@pytest.fixture(autouse=True)
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mappings run the current directory: here a small one."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


_others: set[str] = set()  # such as servers of other tests


def _all_children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.fixture(autouse=True)
def others() -> None:
    """Notes which children of this process are not of the test that begins."""
    _others.clear()
    _others.update(_all_children())


def children() -> list[str]:
    """The children that this process got during the test, the dead included."""
    return [pid for pid in _all_children() if pid not in _others]


def test_types_are_known_to_checkers() -> None:
    """mypy reads this; it does not need to run."""
    assert resources.files("muster").joinpath("py.typed").is_file()
    run = muster.run(QUICK)
    assert_type(run, muster.Run)
    assert_type(run.wait(), str)
    assert_type(run.state, str)
    assert_type(run.result, dict[str, Any] | None)
    assert_type(run.job, muster.Job)
    assert_type(run.logs(), Iterator[bytes])
    assert_type(run.follow(), Iterator[muster.Chunk])
    assert_type(muster.load(QUICK), muster.Job)
    assert_type(muster.get("last"), muster.Run)
    assert_type(muster.list_runs(), list[muster.Run])
    assert_type(run.rerun(detach=True).wait(), str)


def test_every_public_name_is_there_again_and_again() -> None:
    for _ in range(2):
        for name in muster.__all__:
            value = getattr(muster, name)
            assert value.__name__ == name
    with pytest.raises(AttributeError):
        getattr(muster, "noth" + "ing")


def test_a_run_that_goes_on_is_not_removed(write_job: WriteJob) -> None:
    run = muster.run(write_job({"command": "sleep 1000"}))
    with pytest.raises(muster.RunNotFound, match="has not ended"):
        run.remove()
    assert run.stop(now=True) == "stopped"
    run.remove()
    assert muster.list_runs() == []


def test_a_supervisor_that_stands_still_cannot_keep_a_run_alive(write_job: WriteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "STUCK", 0.5)
    run = muster.run(write_job({"command": "sleep 1000"}))
    until(lambda: run.state == "running")
    os.kill(int(json.loads(Path(run.dir.run).read_text())["handle"].split(":")[0]), signal.SIGSTOP)
    assert run.stop(now=True) in ("stopped", "lost")
    assert gone(f"MUSTER_RUN={run.id}") == []


def test_a_run_can_be_stopped_where_no_request_can_be_written(write_job: WriteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, data: object) -> bool:
        raise OSError(28, "No space left on device")

    run = muster.run(write_job({"command": "sleep 1000"}))
    until(lambda: run.state == "running")
    monkeypatch.setattr(run_module, "write_once", full)
    assert run.stop() == "stopped"


def test_a_stop_between_two_attempts_is_a_stop(write_job: WriteJob) -> None:
    run = muster.run(write_job({"command": "exit 1", "retries": 1000}))
    until(lambda: len(run.dir.attempt_numbers()) > 2)
    assert run.stop() == "stopped"


def test_a_job_made_by_hand_is_checked_like_any_other() -> None:
    with pytest.raises(muster.JobError, match="nodes"):
        muster.run(muster.Job(name="x", command="true", nodes=0))
    with pytest.raises(muster.JobError, match="neither `boot` nor `command`"):
        muster.run(muster.Job(name="x"))


def test_a_file_a_mapping_and_a_job_run_alike(write_job: WriteJob) -> None:
    path = write_job({"command": "echo $COLOUR"})
    mapping = {"command": "echo $COLOUR", "device": "cpu"}
    for job in (path, str(path), mapping, muster.load(path)):
        run = muster.run(job, set=["env.COLOUR=blue"])
        assert run.wait() == "succeeded"
        assert b"".join(run.logs()) == b"blue\n"
    assert Path(muster.list_runs()[-1].dir.job_file).read_text() == path.read_text()


def test_wrong_overrides_of_a_job_are_refused_with_all_problems() -> None:
    with pytest.raises(muster.JobError) as caught:
        muster.run(muster.load(QUICK), set=["devices=0", "nodes=0"])
    assert len(caught.value.problems) == 2
    assert muster.list_runs() == []


def test_waiting_can_end_before_the_run_does() -> None:
    run = muster.run(WAITS)
    until_ready(run.id)
    assert run.wait(timeout=0) == "running"
    assert run.wait(timeout=0.05) == "running"
    assert not run.ended
    assert run.stop(now=True) == "stopped"
    assert run.wait(timeout=0) == "stopped"
    assert run.ended


def test_stopping_says_why() -> None:
    run = muster.run({**WAITS, "grace": "5s"})
    until_ready(run.id)
    assert run.stop(reason="the loss is not a number") == "stopped"
    assert run.reason == "the loss is not a number"
    assert run.stop() == "stopped"


def test_what_a_run_does_not_have_is_refused() -> None:
    run = muster.run(QUICK)
    run.wait()
    for wrong in ({"rank": 2}, {"rank": -1}, {"process": "scheduler"}, {"attempt": 2}, {"attempt": 0}):
        with pytest.raises(muster.RunNotFound, match=run.id):
            list(run.logs(**wrong))
        with pytest.raises(muster.RunNotFound, match=run.id):
            list(run.follow(**wrong))


def test_a_run_that_was_removed_says_so() -> None:
    run = muster.run(QUICK)
    run.wait()
    other = muster.get(run.id)
    run.remove()
    with pytest.raises(muster.RunNotFound, match=f"{run.id} was removed"):
        _ = other.state
    assert muster.list_runs() == []


def test_following_one_process_ends_with_the_run() -> None:
    run = muster.run({**QUICK, "command": "for n in 1 2 3; do echo $MUSTER_RANK.$n; sleep 0.05; done"})
    chunks = list(run.follow(rank=1))
    assert b"".join(chunk.data for chunk in chunks) == b"1.1\n1.2\n1.3\n"
    assert {(chunk.process, chunk.node, chunk.attempt) for chunk in chunks} == {("rank-1", 0, 1)}
    assert chunks[-1].offset == 12
    assert run.ended


def test_a_follower_that_is_given_up_closes_its_files() -> None:
    run = muster.run(WAITS)
    before = os.listdir("/proc/self/fd")
    following = run.follow()
    next(following)
    following.close()  # type: ignore[attr-defined]
    assert os.listdir("/proc/self/fd") == before
    run.stop(now=True)


@pytest.mark.long
def test_many_runs_at_once_from_threads_of_a_fresh_home() -> None:
    """All of them make the home, the agent and the snapshot at the same time."""

    def work(number: int) -> tuple[str, bytes]:
        run = muster.run({"command": f"echo {number}", "device": "cpu"})
        return run.wait(), b"".join(run.logs())

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(work, range(12)))
    assert done == [("succeeded", f"{number}\n".encode()) for number in range(12)]
    assert len(muster.list_runs()) == 12
    assert children() == []


def test_threads_that_stop_and_wait_for_one_run_agree() -> None:
    run = muster.run(WAITS)
    until_ready(run.id)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(run.wait) for _ in range(4)]
        stopping = [pool.submit(run.stop) for _ in range(4)]
        states = {future.result() for future in waiting + stopping}
    assert states == {"stopped"}


def test_runs_that_have_ended_leave_neither_descriptors_nor_zombies() -> None:
    before = set(os.listdir("/proc/self/fd"))
    waited, followed, stopped = (muster.run(QUICK) for _ in range(3))
    detached = muster.run(QUICK, detach=True)
    waited.wait()
    detached.wait()
    stopped.stop()
    list(followed.follow())
    until(lambda: [run.state for run in (waited, followed, stopped, detached)] and not children())
    assert set(os.listdir("/proc/self/fd")) == before


def test_runs_that_nobody_looks_at_any_more_are_cleared_by_the_next() -> None:
    first = muster.run(QUICK)
    until(lambda: os.path.exists(first.dir.final))
    until(lambda: Path(f"/proc/{children()[0]}/stat").read_text().split(") ")[1].startswith("Z"))
    second = muster.run(QUICK)
    assert len(children()) == 1
    second.wait()
    assert children() == []


SCRIPT = """
import sys
import muster

run = muster.run({"command": "echo ready; sleep 1000", "device": "cpu", "grace": "1s"}, detach=sys.argv[1] == "detach")
print(run.id, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_a_run_is_stopped_when_its_program(how: str) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, "tied"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        until_ready(only_run())
        if how == "is killed":
            program.send_signal(signal.SIGKILL)
        program.communicate()
    run = muster.get("last")
    assert run.wait() == "stopped"
    assert run.reason == "the command that followed this run is gone"
    assert not gone(f"MUSTER_RUN={run.id}")


@pytest.mark.conformance(not_on_server="muster.run is for this machine")
def test_a_detached_run_outlives_its_program() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, "detach"], input="", capture_output=True, text=True)
    run = muster.get(done.stdout.strip())
    until_ready(run.id)
    assert run.state == "running"
    assert run.stop(now=True) == "stopped"


def test_an_interrupted_script_ends_as_python_scripts_do() -> None:
    """The API leaves the signals of a program alone."""
    script = textwrap.dedent("""
        import muster
        run = muster.run({"command": "echo ready; sleep 1000", "device": "cpu", "grace": "1s"})
        try:
            run.wait()
        except KeyboardInterrupt:
            print(run.stop(reason="enough"))
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as program:
        until_ready(only_run())
        program.send_signal(signal.SIGINT)
        said, _ = program.communicate(timeout=30)
    assert said == "stopped\n"
    assert muster.get("last").reason == "enough"


def test_a_job_is_the_same_in_the_record() -> None:
    job = muster.load({**QUICK, "parameters": {"rate": "1e-3"}, "time_limit": "90s"})
    run = muster.run(job)
    run.wait()
    assert run.job == job
    assert json.loads(Path(run.dir.job).read_text())["parameters"] == {"rate": "1e-3"}
