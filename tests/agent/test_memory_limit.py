"""`memory` and `cpus`: what a node's processes may use, and out of memory only where the kernel's counters show it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from behaviour import NodeName
from conftest import Muster, WriteJob
from muster.agent.sandbox import memory

RunJson = Callable[..., dict[str, Any]]

HUNGRY = """
import os, sys, time
print("up", flush=True)
if os.environ["MUSTER_RANK"] == "1":
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)) * 8)
        time.sleep(0.005)
time.sleep(1000)
"""


def groups(run: str) -> list[str]:
    """The control groups that were made for a run and not removed."""
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(folder).startswith(f"muster-{run}-")]


@pytest.fixture
def kernel() -> None:
    if not memory.can_limit():
        pytest.skip("no control group can be made here")


@pytest.fixture
def without_groups(command: list[str]) -> list[str]:
    """The command line on a machine where control groups cannot be made."""
    if not memory.can_limit():
        return command
    hide = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", hide, "sh", *command]


@pytest.mark.conformance(not_on_hosts="the hosts of the tests can make no control groups")
def test_the_kernel_keeps_the_limit_and_the_reason_says_so(
    kernel: None, containment: str, run_json: RunJson, write_job: WriteJob, node_name: NodeName
) -> None:
    view = run_json(write_job({"per": "device", "devices": 2, "memory": "200M"}, **{"train.py": HUNGRY}))
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "oom")
    told = f"rank 1 on {node_name(0)} was killed (SIGKILL); the kernel's counters show out of memory"
    assert view["reason"] == told
    assert groups(view["run"]) == []


def test_where_only_a_child_was_killed_for_memory_it_is_told_but_not_called_the_cause(
    kernel: None, run_json: RunJson, write_job: WriteJob
) -> None:
    eat = "import os; kept = []\nwhile True: kept.append(os.urandom(1 << 20) * 8)"
    parent = f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', {eat!r}]) != 0 and 9)\n"
    view = run_json(write_job({"memory": "200M"}, **{"train.py": parent}))
    told = "rank 0 on node 0 exited with code 9; the kernel had killed another process of its node for memory"
    assert (view["reason"], view["attempts"][0]["cause"]) == (told, "exit")


def test_without_the_kernels_help_the_agent_keeps_the_limit(
    without_groups: list[str], containment: str, write_job: WriteJob
) -> None:
    job = write_job({"per": "device", "nodes": 2, "devices": 2, "memory": "200M"}, **{"train.py": HUNGRY})
    with Live(without_groups, job) as live:
        view = live.end()
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "oom")
    assert view["reason"].startswith("the processes of node 0 used ")
    assert view["reason"].endswith(" together, more than the job's `memory: 200M`")


def test_enough_memory_is_enough(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"memory": "1G", "nodes": 2}, **{"train.py": "kept = bytearray(100 << 20)\n"}))
    assert view["state"] == "succeeded", view["reason"]
    assert groups(view["run"]) == []


@pytest.mark.parametrize("limit", [None, "1G"])
def test_a_plain_kill_is_not_taken_for_lack_of_memory(
    limit: str | None, containment: str, command: list[str], write_job: WriteJob
) -> None:
    job = write_job({"memory": limit} if limit else {}, **{"train.py": "import signal\nprint('up')\nsignal.pause()\n"})
    with Live(command, job) as live:
        live.until_running()
        os.kill(live.rank(0), signal.SIGKILL)
        assert live.end()["reason"] == "rank 0 on node 0 was killed (SIGKILL)"


def test_a_python_memory_error_is_told_as_what_it_is(kernel: None, run_json: RunJson, write_job: WriteJob) -> None:
    train = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\nkept = bytearray(2 << 30)\n"
    view = run_json(write_job({"memory": "4G"}, **{"train.py": train}))
    assert view["reason"] == "rank 0 on node 0 exited with code 1: MemoryError"


def test_the_next_attempt_has_the_limit_again(kernel: None, containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(
        write_job({"per": "device", "devices": 2, "memory": "200M", "retries": 1, "retry_on": ["oom"]}, **{"train.py": HUNGRY})
    )
    assert [attempt["cause"] for attempt in view["attempts"]] == ["oom", "oom"]
    assert all("the kernel's counters show" in attempt["reason"] for attempt in view["attempts"])


@pytest.mark.parametrize("victim", ["supervisor", "agent"])
def test_no_control_group_outlives_a_run_that_was_lost(
    victim: str, kernel: None, containment: str, muster: Muster, command: list[str], write_job: WriteJob
) -> None:
    job = write_job({"memory": "1G", "nodes": 2}, **{"train.py": "import signal\nprint('up')\nsignal.pause()\n"})
    with Live(command, job) as live:
        live.until_running(2)
        assert len(groups(live.run.id)) == 2
        os.kill(live.supervisor if victim == "supervisor" else live.agent(1), signal.SIGKILL)
        live.end()
    assert groups(live.run.id) == []


@pytest.mark.parametrize(("asked", "expected"), [(1, 1), (100_000, len(os.sched_getaffinity(0)))])
def test_cpus_bind_the_ranks_of_a_node(
    asked: int, expected: int, containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    train = "import os\nprint(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])\n"
    view = run_json(write_job({"cpus": asked, "nodes": 2}, **{"train.py": train}))
    said = [Path(rank["log"]).read_text() for rank in view["attempts"][0]["ranks"]]
    assert said == [f"{expected} {expected}\n"] * 2


def test_without_cpus_ranks_may_use_the_whole_machine_and_share_its_threads(
    containment: str, muster: Muster, write_job: WriteJob
) -> None:
    train = "import os\nprint(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])\n"
    job = write_job({"framework": "pytorch", "nodes": 1, "devices": 4}, **{"train.py": train})
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli.main", "run", str(job)], env=environment, capture_output=True, text=True
    )
    machine = len(os.sched_getaffinity(0))
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {machine} {max(1, machine // 4)}" for rank in range(4)]
