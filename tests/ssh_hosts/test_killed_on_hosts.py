"""Whatever is killed, on a host or on the submitter's machine: no rank outlives its supervisor by more than `lost_after`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from live import Live

from conftest import Muster, WriteJob, until
from host_machines import Machines

pytestmark = pytest.mark.long

WAITING = {"train.py": "import signal\nprint('up', flush=True)\nwhile True:\n    signal.pause()\n"}
FIELDS = {"python": "python3", "nodes": 2, "grace": "1s"}


def test_ranks_end_by_themselves_when_nobody_starts_their_supervisor_again(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", lost_after="3s")
    with Live(command, write_job(FIELDS, **WAITING), "--detach") as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGKILL)
        until(lambda: not machines.left())
        assert muster("wait", live.run.id).returncode == 1
    final = live.final()
    assert (final["state"], final["attempts"][0]["cause"]) == ("lost", "lost")
    assert "ended its ranks: no supervisor reached it for 3s" in final["reason"]


def link_of(live: Live, node: int) -> int:
    """The process that keeps the connection to a host."""
    children = Path(f"/proc/{live.supervisor}/task/{live.supervisor}/children").read_text().split()
    [found] = [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() == f"muster-link-{node}\n"]
    return found


def test_a_host_that_was_cut_off_before_the_supervisor_noticed_it_is_lost_with_the_gang(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    """Its daemon hears nothing, because the link stands still; when that goes on, it has never missed a thing."""
    on_hosts("h1", "h2", lost_after="3s")
    with Live(command, write_job(FIELDS, **WAITING)) as live:
        live.until_running(2)
        link = link_of(live, 1)
        os.kill(link, signal.SIGSTOP)
        try:
            until(lambda: not any("h2" in line and "train.py" in line for line in machines.left()))
        finally:
            os.kill(link, signal.SIGCONT)
        view = live.end()
    assert (view["state"], view["reason"]) == ("lost", "h2 ended its ranks: no supervisor reached it for 3s")


KILLED = {
    "daemon": ("muster-host-1", "lost", "h2 was started again, or its daemon was killed"),
    "agent": ("muster-node-1", "failed", "the agent of node 1 (h2) was killed (SIGKILL)"),
}


@pytest.mark.parametrize("what", KILLED)
def test_a_program_of_muster_that_is_killed_on_a_host_ends_the_ranks_of_all_hosts(
    what: str, machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts("h1", "h2")
    program, state, reason = KILLED[what]
    with Live(command, write_job(FIELDS, **WAITING)) as live:
        live.until_running(2)
        for pid in machines.named("h2", program):
            os.kill(pid, signal.SIGKILL)
        view = live.end()
        until(lambda: not machines.left())
    assert (view["state"], view["reason"]) == (state, reason)


def test_ranks_whose_daemon_and_agent_are_killed_at_once_end_without_namespaces_too(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", namespaces=False)
    with Live(command, write_job(FIELDS, **WAITING)) as live:
        live.until_running(2)
        both = [pid for program in ("muster-host-1", "muster-node-1") for pid in machines.named("h2", program)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in both:
                os.kill(pid, number)
        view = live.end()
        until(lambda: not machines.left())
    assert (len(both), view["state"], view["reason"]) == (2, *KILLED["daemon"][1:])


def test_a_killed_link_is_the_end_of_its_host_alone(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", lost_after="3s")
    with Live(command, write_job(FIELDS, **WAITING)) as live:
        live.until_running(2)
        os.kill(link_of(live, 1), signal.SIGKILL)
        view = live.end()
        until(lambda: not machines.left())
    assert (view["state"], view["reason"]) == ("lost", "h2 lost the process that kept its connection")


def test_a_killed_ssh_server_costs_nothing(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob
) -> None:
    on_hosts("h1", "h2")
    count = "import time\nfor number in range(300):\n    print('line', number, flush=True)\n    time.sleep(0.01)\n"
    with Live(command, write_job(FIELDS, **{"train.py": count})) as live:
        until(lambda: live.logs().count("line 20\n") == 2)
        machines.kill_sshd("h2")
        view = live.end()
    assert view["state"] == "succeeded", view["reason"]
    assert live.log(1) == "".join(f"line {number}\n" for number in range(300))
    events = [json.loads(line) for line in Path(live.run.events).read_text().splitlines()]
    assert [event["host"] for event in events if event["event"] == "link-broken"][:1] == ["h2"]
