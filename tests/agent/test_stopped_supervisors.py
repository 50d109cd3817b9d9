"""A supervisor or an agent that is stopped and not continued: the run is not lost, and everybody says what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from live import Live

from conftest import Muster, WriteJob, gone, processes_with, until

UP = "import signal\nprint('up', flush=True)\nsignal.pause()\n"


def stopped(pid: int) -> str:
    return (
        f"its supervisor (process {pid}) is stopped, and the run does not end, neither at its time limit nor by `muster stop`; "
        f"`kill -CONT {pid}` lets it go on, `muster stop --now` ends the run"
    )


@pytest.fixture
def live(containment: str, command: list[str], muster: Muster, write_job: WriteJob) -> Iterator[Live]:
    with Live(command, write_job({"nodes": 2}, **{"train.py": UP})) as live:
        live.until_running(2)
        yield live
        with suppress(ProcessLookupError):  # the run may have ended
            os.kill(live.supervisor, signal.SIGCONT)
        muster("stop", live.run.id, "--now")


@pytest.mark.long
def test_whoever_looks_says_so_and_the_run_goes_on(live: Live, muster: Muster) -> None:
    os.kill(live.supervisor, signal.SIGSTOP)
    for view in (json.loads(muster("ps", "--json").stdout)[0], json.loads(muster("show", live.run.id, "--json").stdout)):
        assert (view["state"], view["reason"]) == ("running", stopped(live.supervisor))
    until(lambda: f"muster: {stopped(live.supervisor)}\n" in live.said.read_text())
    os.kill(live.supervisor, signal.SIGCONT)
    until(lambda: live.said.read_text().endswith("muster: it goes on\n"))
    assert json.loads(muster("ps", "--json").stdout)[0]["reason"] == ""


def test_who_waits_for_the_end_is_told(live: Live, muster: Muster) -> None:
    os.kill(live.supervisor, signal.SIGSTOP)
    done = muster("wait", live.run.id, "--timeout", "1s")
    assert done.returncode == 124
    assert done.stderr == f"muster: {stopped(live.supervisor)}\n"


def test_a_request_to_stop_that_nobody_reads_says_so(live: Live, command: list[str], muster: Muster) -> None:
    os.kill(live.supervisor, signal.SIGSTOP)
    with subprocess.Popen([*command, "stop", live.run.id], stderr=subprocess.PIPE, text=True) as asking:
        assert asking.stderr is not None
        assert "stopping" in asking.stderr.readline()
        assert asking.stderr.readline() == f"muster: {stopped(live.supervisor)}\n"
        view = json.loads(muster("show", live.run.id, "--json").stdout)
        assert (view["state"], view["reason"]) == ("stopping", f"{stopped(live.supervisor)}; stopped by the user")
        os.kill(live.supervisor, signal.SIGCONT)
    assert live.end()["state"] == "stopped"


def test_an_agent_that_is_stopped_is_named(live: Live, muster: Muster) -> None:
    pid = live.agent(1)
    os.kill(pid, signal.SIGSTOP)
    view = json.loads(muster("ps", "--json").stdout)[0]
    assert view["reason"] == (
        f"the agent of node 1 (process {pid}) is stopped, and nobody looks after the ranks of its node; "
        f"`kill -CONT {pid}` lets it go on, `muster stop --now` ends the run"
    )
    os.kill(pid, signal.SIGCONT)


@pytest.mark.long
def test_ranks_end_at_the_time_limit_although_their_supervisor_stands_still(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job({"nodes": 2, "time_limit": "3s", "grace": "1s"}, **{"train.py": UP})) as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGSTOP)
        until(lambda: not [line for line in processes_with(f"MUSTER_RUN={live.run.id}") if "train.py" in line])
        limit = "it took longer than its time limit of 3s"
        view = json.loads(muster("show", live.run.id, "--json").stdout)
        assert (view["state"], view["reason"]) == ("stopping", f"{stopped(live.supervisor)}; {limit}")
        os.kill(live.supervisor, signal.SIGCONT)
        view = live.end()
        assert (view["state"], view["reason"]) == ("failed", limit)
        assert gone(f"MUSTER_RUN={live.run.id}") == []


@pytest.mark.long
def test_an_agent_that_gets_a_signal_ends_its_ranks_although_its_supervisor_stands_still(
    containment: str, command: list[str], write_job: WriteJob
) -> None:
    with Live(command, write_job({"nodes": 2, "grace": "1s"}, **{"train.py": UP})) as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGSTOP)
        os.kill(live.agent(1), signal.SIGTERM)
        until(lambda: len([line for line in processes_with(f"MUSTER_RUN={live.run.id}") if "train.py" in line]) == 1)
        os.kill(live.supervisor, signal.SIGCONT)
        view = live.end()
        assert (view["state"], view["reason"]) == ("stopped", "node 1 was told to end (SIGTERM)")


def test_what_failed_first_while_a_supervisor_stood_still_is_the_reason(
    containment: str, command: list[str], write_job: WriteJob
) -> None:
    with Live(command, write_job({"nodes": 2}, **{"train.py": UP})) as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGSTOP)
        for rank in (1, 0):
            os.kill(live.rank(rank), signal.SIGKILL)
            until(partial(os.path.lexists, f"{live.run.attempt(1).meet}/failed.{rank}"))
        os.kill(live.supervisor, signal.SIGCONT)
        assert live.end()["reason"] == "rank 1 on node 1 was killed (SIGKILL)"


def test_a_run_in_a_frozen_control_group(live: Live, muster: Muster, frozen: Callable[[int], str]) -> None:
    group = frozen(live.supervisor)
    view = json.loads(muster("ps", "--json").stdout)[0]
    assert view["state"] == "running"
    assert f"its supervisor (process {live.supervisor}) is frozen, and the run does not end" in view["reason"]
    assert f"; thawing its control group {group} lets it go on, " in view["reason"]


FREEZERS = [("/sys/fs/cgroup", "cgroup.freeze", "1", "0"), ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0")]
FREEZERS += [("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED")]


@pytest.fixture(params=FREEZERS, ids=[place for place, *_ in FREEZERS])
def frozen(request: pytest.FixtureRequest) -> Iterator[Callable[[int], str]]:
    """Puts a process into a control group of its own and freezes that."""
    place, switch, on, off = request.param
    group = Path(place, f"muster-frozen-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        if not (group / switch).exists():
            pytest.skip(f"{place} freezes nothing")

        def freeze(pid: int) -> str:
            (group / "cgroup.procs").write_text(str(pid))
            (group / switch).write_text(on)
            until(lambda: "frozen 1" in _said(group / "cgroup.events") or "FROZEN" in _said(group / "freezer.state"))
            return str(group)

        yield freeze
    finally:
        if (group / switch).exists():
            (group / switch).write_text(off)
            for pid in (group / "cgroup.procs").read_text().split():
                Path(place, "cgroup.procs").write_text(pid)
        group.rmdir()


def _said(path: Path) -> str:
    return path.read_text() if path.exists() else ""
