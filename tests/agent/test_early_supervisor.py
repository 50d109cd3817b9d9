"""A supervisor process that `muster run` starts before it has read the job, in a home that has run something before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live

import muster as api
from conftest import Muster, WriteJob, gone, processes_with, until
from muster.engines.local import early
from muster.engines.local.engine import Local
from muster.launch.start import early as beginning
from muster.launch.start import packed_agent
from muster.linux import proc

UP = "import os, signal\nprint('given', os.environ['GIVEN'], flush=True)\nprint('up', flush=True)\nsignal.pause()\n"


@pytest.fixture
def used_home(home: Path, muster: Muster, tmp_path: Path) -> Path:
    """A home in which a run has left the packed agent."""
    assert muster("run", "--", "true").returncode == 0
    return home


@pytest.fixture
def waiting(used_home: Path) -> Iterator[int]:
    early.start(packed_agent.path(str(used_home)))
    yield early._waiting[-1].process
    for left in early._waiting:
        left.socket.close()
    early._waiting.clear()


def test_it_looks_like_one_that_was_started_for_its_run(
    containment: str, used_home: Path, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job({"nodes": 2}, **{"train.py": UP}), GIVEN="to ranks") as live:
        live.until_running(2)
        given = proc.environment(live.supervisor)
        words = proc.command_line(live.supervisor).rstrip(b"\0").split(b"\0")
        assert "GIVEN" not in given  # it was started before the environment of the run was known
        assert live.logs().count("given to ranks\n") == 2
        assert words[4:6] == [b"supervise", os.fsencode(live.run.path)]
        assert str(Local(str(used_home)).find(live.run.path)).startswith(f"{live.supervisor}:")
        os.kill(live.supervisor, signal.SIGKILL)
    assert muster("reconcile").returncode == 0
    assert live.state == "lost"
    assert gone(f"MUSTER_HOME={used_home}") == []


@pytest.mark.parametrize("words", [["nothing.yaml"], ["--set", "nodes=0", "--", "true"]])
def test_it_ends_when_the_job_is_wrong(used_home: Path, command: list[str], words: list[str]) -> None:
    runs = os.listdir(used_home / "runs")
    done = subprocess.run([*command, "run", *words], capture_output=True)
    assert done.returncode == 2
    assert os.listdir(used_home / "runs") == runs
    assert gone(f"MUSTER_HOME={used_home}") == []


def test_it_ends_with_the_command_that_is_killed(used_home: Path) -> None:
    program = (
        "import sys, time\nfrom muster.engines.local import early\nfrom muster.launch.start import packed_agent\n"
        "early.start(packed_agent.path(sys.argv[1]))\nprint('started', flush=True)\ntime.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(used_home)], stdout=subprocess.PIPE) as starting:
        assert starting.stdout is not None
        assert starting.stdout.readline() == b"started\n"
        assert any(" await " in line for line in processes_with(f"MUSTER_HOME={used_home}"))
        starting.kill()
    assert gone(f"MUSTER_HOME={used_home}") == []


def test_another_is_started_where_it_was_killed(waiting: int, write_job: WriteJob) -> None:
    os.kill(waiting, signal.SIGKILL)
    until(lambda: not proc.alive(waiting))
    os.waitpid(waiting, 0)
    run = api.run(str(write_job({"command": "echo done"})))
    assert run.wait() == "succeeded"


def test_it_takes_a_large_environment(
    waiting: int, used_home: Path, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 30_000)
    run = api.run(str(write_job({"command": "echo ${#LARGE_29}"})))
    assert run.wait() == "succeeded"
    assert b"".join(run.logs()) == b"30000\n"
    assert int(str(run.handle).partition(":")[0]) == waiting


def test_a_changed_agent_is_not_started(used_home: Path) -> None:
    with open(packed_agent.path(str(used_home)), "ab") as file:
        file.write(b"changed")
    beginning.begin(["job.yaml"])
    assert early._waiting == []


@pytest.mark.parametrize("words", [["--check"], ["--engine", "slurm"], ["--engine=slurm"], ["--dry-run"], ["--help"]])
def test_none_is_started_for_commands_that_start_nothing_here(used_home: Path, words: list[str]) -> None:
    beginning.begin(["job.yaml", *words])
    assert early._waiting == []


def test_none_is_started_where_the_settings_name_an_engine(used_home: Path) -> None:
    (used_home / "config.toml").write_text('engine = "slurm"\n')
    beginning.begin(["job.yaml"])
    assert early._waiting == []
