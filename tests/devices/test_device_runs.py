"""Runs on real devices: each gets exactly as many as it asks for, and never one that somebody else has.

Of the local engine alone: on a cluster devices are for Slurm to give (tests/slurm/test_slurm_devices.py).
"""

from __future__ import annotations

import getpass
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_devices import Gpus, Machine, Npus

from conftest import Muster, WriteJob, gone, until
from muster.agent.supervisor.supervisor import DEVICE_PAUSE
from muster.engines.local.engine import Local
from muster.job import Job
from muster.records.derive import view
from muster.records.layout import RunDir

RunJson = Callable[..., dict[str, Any]]

SHOW = "env | grep -E '^(CUDA_|ASCEND_|DEVICE_ID|RANK_TABLE_FILE|OMP_NUM_THREADS|RANK_ID)' | sort"
HOLD = "echo up; until [ -e {go} ]; do sleep 0.02; done"


def seen(run: dict[str, Any]) -> list[dict[str, str]]:
    """What SHOW printed, rank by rank."""
    logs = sorted(Path(run["dir"]).glob("attempts/1/nodes/*/logs/rank-*.log"), key=lambda log: int(log.stem[5:]))
    return [dict(line.split("=", 1) for line in log.read_text().splitlines()) for log in logs]


class Started:
    """A run in the background that keeps its devices until it is told to go on."""

    def __init__(self, muster: Muster, job: Path, *words: str, **env: str) -> None:
        done = muster("run", job, "--detach", "--json", *words, **env)
        assert done.returncode == 0, done.stderr
        self.muster = muster
        self.run = RunDir(json.loads(done.stdout)["dir"])
        self.id = self.run.id

    @property
    def state(self) -> str:
        return str(view(self.run).state)

    @property
    def reason(self) -> str:
        return str(view(self.run).reason)

    def log(self) -> str:
        return "".join(log.read_text() for log in Path(self.run.path).glob("attempts/*/nodes/*/logs/rank-*.log"))

    def until_up(self) -> None:
        until(lambda: "up\n" in self.log())

    def until_waiting(self) -> str:
        return str(until(lambda: self.reason if self.state == "pending" else ""))

    def end(self) -> str:
        """Waits for its end and returns its state."""
        self.muster("wait", self.id)
        return self.state


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """Runs of HOLD end when this file is there."""
    return tmp_path / "go"


# -- what ranks see


@pytest.mark.parametrize("kind", ["auto", "nvidia"])
def test_ranks_see_as_many_gpus_as_their_node_asked_for(
    kind: str, tmp_path: Path, run_json: RunJson, write_job: WriteJob
) -> None:
    machine = Gpus(tmp_path / "m", 5)
    job = write_job({"command": SHOW, "per": "device", "nodes": 2, "devices": 2, "device": kind})
    run = run_json(job, **machine.env)
    assert run["exit"] == 0, run["stderr"]
    ranks = seen(run)
    assert {rank["CUDA_DEVICE_ORDER"] for rank in ranks} == {"PCI_BUS_ID"}
    masks = [rank["CUDA_VISIBLE_DEVICES"].split(",") for rank in ranks]
    assert masks[0] == masks[1]
    assert masks[2] == masks[3]
    assert len({*masks[0], *masks[2]}) == 4  # two each, none of them twice
    assert {*masks[0], *masks[2]} <= {"0", "1", "2", "3", "4"}


def test_ranks_with_a_rank_table_open_physical_devices_and_see_them_unmasked(
    tmp_path: Path, run_json: RunJson, write_job: WriteJob
) -> None:
    machine = Npus(tmp_path / "m", *range(8))
    job = write_job({"command": SHOW, "framework": "mindspore", "nodes": 2, "devices": 4, "device": "auto"})
    every = ",".join(map(str, range(8)))  # a submitter's mask would renumber what they open by its physical id
    run = run_json(job, ASCEND_RT_VISIBLE_DEVICES=every, **machine.env)
    assert run["exit"] == 0, run["stderr"]
    ranks = seen(run)
    assert all("ASCEND_RT_VISIBLE_DEVICES" not in rank for rank in ranks)
    ids = [rank["DEVICE_ID"] for rank in ranks]
    assert sorted([ids[:4], ids[4:]]) == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]  # a ring each
    table = json.loads(Path(ranks[0]["RANK_TABLE_FILE"]).read_text())
    devices = [device for server in table["server_list"] for device in server["device"]]
    assert [device["device_id"] for device in devices] == ids
    assert [device["device_ip"] for device in devices] == [f"192.168.{id}.1" for id in ids]  # from hccn.conf
    assert [device["rank_id"] for device in devices] == [rank["RANK_ID"] for rank in ranks]


def test_an_attached_run_says_whom_it_waits_for(
    tmp_path: Path, muster: Muster, command: list[str], write_job: WriteJob, go: Path
) -> None:
    machine = Gpus(tmp_path / "m", 1)
    job = write_job({"command": HOLD.format(go=go), "device": "nvidia"})
    first = Started(muster, job, **machine.env)
    first.until_up()
    words = [*command, "run", str(job)]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **machine.env}
    ) as second:
        assert second.stderr is not None
        lines = [second.stderr.readline().decode() for _ in range(2)]
        assert lines[1].startswith(f"muster: waiting for devices: run {first.id} of ")
        go.touch()
        assert b"succeeded" in second.stderr.read()


def test_a_driver_that_does_not_work_is_told_where_auto_takes_the_cpu(
    tmp_path: Path, muster: Muster, write_job: WriteJob
) -> None:
    done = muster("run", write_job({"command": "true", "device": "auto"}), **Machine(tmp_path / "m").env)
    assert done.returncode == 0
    assert "muster: nvidia-smi does not work: code 9" in done.stderr


def test_a_submitter_who_hides_devices_gets_none_of_them(tmp_path: Path, run_json: RunJson, write_job: WriteJob) -> None:
    gpus = Gpus(tmp_path / "gpus", 4)
    job = write_job({"command": SHOW, "devices": 2, "device": "auto"})
    assert [rank["CUDA_VISIBLE_DEVICES"] for rank in seen(run_json(job, CUDA_VISIBLE_DEVICES="1,3", **gpus.env))] == ["1,3"]
    assert run_json(job, CUDA_VISIBLE_DEVICES="", **gpus.env)["job"]["device"] == "cpu"
    npus = Npus(tmp_path / "npus", *range(8))
    run = run_json(job, ASCEND_RT_VISIBLE_DEVICES="6,7", **npus.env)
    assert [rank["ASCEND_RT_VISIBLE_DEVICES"] for rank in seen(run)] == ["6,7"]


def test_ranks_without_a_rank_table_see_their_nodes_devices_alone(
    tmp_path: Path, run_json: RunJson, write_job: WriteJob
) -> None:
    machine = Npus(tmp_path / "m", *range(8))
    fields = {"framework": "mindspore", "rank_table": "none", "devices": 2, "device": "ascend"}
    run = run_json(write_job({"command": SHOW, **fields}), **machine.env)
    assert run["exit"] == 0, run["stderr"]
    ranks = seen(run)
    assert [rank["DEVICE_ID"] for rank in ranks] == ["0", "1"]
    assert [rank["ASCEND_RT_VISIBLE_DEVICES"] for rank in ranks] == ["0,1", "0,1"]


def test_a_machine_without_accelerators_simulates_them_and_hides_gpus_from_ranks(
    tmp_path: Path, run_json: RunJson, write_job: WriteJob
) -> None:
    job = write_job({"command": SHOW, "per": "device", "devices": 3, "device": "auto"})
    run = run_json(job, CUDA_VISIBLE_DEVICES="0,1", **Machine(tmp_path / "m").env)
    assert [rank["CUDA_VISIBLE_DEVICES"] for rank in seen(run)] == ["", "", ""]
    assert run["job"]["device"] == "cpu"  # the record says what `auto` was


# -- CPU threads


def test_cpu_threads_are_shared_out_among_the_ranks_of_a_node(run_json: RunJson, write_job: WriteJob) -> None:
    cpus = len(os.sched_getaffinity(0))
    ranks = seen(run_json(write_job({"command": SHOW, "per": "device", "devices": 2})))
    assert [rank["OMP_NUM_THREADS"] for rank in ranks] == [str(max(1, cpus // 2))] * 2
    assert seen(run_json(write_job({"command": SHOW})))[0]["OMP_NUM_THREADS"] == str(cpus)
    assert seen(run_json(write_job({"command": SHOW, "cpus": 1})))[0]["OMP_NUM_THREADS"] == "1"


def test_whoever_says_how_many_threads_there_are_is_believed_the_job_most_of_all(
    run_json: RunJson, write_job: WriteJob
) -> None:
    silent = write_job({"command": SHOW})
    assert seen(run_json(silent, OMP_NUM_THREADS="17"))[0]["OMP_NUM_THREADS"] == "17"
    said = write_job({"command": SHOW, "env": {"OMP_NUM_THREADS": "23"}})
    assert seen(run_json(said, OMP_NUM_THREADS="17"))[0]["OMP_NUM_THREADS"] == "23"
    exported = write_job({"command": SHOW, "setup": "export OMP_NUM_THREADS=29"})
    assert seen(run_json(exported, OMP_NUM_THREADS="17"))[0]["OMP_NUM_THREADS"] == "29"


# -- more than there is


def refused(machine: Machine, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> list[tuple[str, str, str]]:
    """Why the local engine refuses a job on such a machine: field, message, hint."""
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    engine = Local("/nowhere")
    return engine.impossible(engine.resolve(Job(command="true", **fields), lambda said: None))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"device": "nvidia", "devices": 3}, "asks for 3 nvidia devices, and this machine has 2"),
        ({"device": "auto", "nodes": 3}, "asks for 3 times 1 nvidia devices, and this machine has 2"),
        ({"device": "ascend"}, "asks for ascend devices, and this machine has none"),
    ],
)
def test_more_gpus_than_the_machine_has_are_refused(
    fields: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, message, hint),) = refused(Gpus(tmp_path / "m", 2), monkeypatch, **fields)
    assert said in message
    assert "simulate" in hint


def test_a_job_that_is_refused_creates_nothing(tmp_path: Path, muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "true", "device": "auto", "nodes": 3})
    done = muster("run", job, **Gpus(tmp_path / "m", 2).env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "asks for 3 times 1 nvidia devices, and this machine has 2" in done.stderr
    assert "simulate" in done.stderr
    assert not home.exists()


@pytest.mark.parametrize(
    ("ids", "fields", "said"),
    [
        (range(8), {"devices": 3}, "1, 2 or 4 devices of one ring, or all 8; not 3"),
        (range(8), {"devices": 16}, "not 16"),
        (range(8), {"devices": 8, "nodes": 2}, "asks for 2 times 8 ascend devices, and this machine has 8"),
        (range(4), {"devices": 8}, "asks for 8 ascend devices, and this machine has 4"),
        ((0, 1, 2, 4, 5, 6), {"devices": 4}, "no ring with as many: it has 0, 1, 2, 4, 5, 6"),
        ((0, 1, 2, 4), {"devices": 2, "nodes": 2}, "no ring with as many: it has 0, 1, 2, 4"),
    ],
)
def test_ascend_devices_that_no_ring_can_give_are_refused(
    ids: Any, fields: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, message, _),) = refused(Npus(tmp_path / "m", *ids), monkeypatch, device="auto", **fields)
    assert said in message


# -- held by another run


def test_a_second_run_waits_says_for_whom_and_starts_when_the_first_ends(
    containment: str, tmp_path: Path, muster: Muster, write_job: WriteJob, go: Path
) -> None:
    machine = Gpus(tmp_path / "m", 3)
    job = write_job({"command": HOLD.format(go=go), "device": "nvidia", "devices": 2})
    first = Started(muster, job, **machine.env)
    first.until_up()
    second = Started(muster, job, **machine.env)
    reason = second.until_waiting()
    assert reason == f"waiting for devices: run {first.id} of {getpass.getuser()} holds nvidia 0, 1"
    assert second.id in muster("ps", "--state", "pending").stdout
    assert first.state == "running"
    go.touch()
    assert (first.end(), second.end()) == ("succeeded", "succeeded")


@pytest.mark.long
def test_a_run_that_fits_beside_another_does_not_wait_and_shares_nothing_with_it(
    tmp_path: Path, muster: Muster, write_job: WriteJob, go: Path
) -> None:
    machine = Npus(tmp_path / "m", *range(8))
    job = write_job({"command": f"echo $ASCEND_RT_VISIBLE_DEVICES; {HOLD.format(go=go)}", "device": "ascend"})
    runs = [Started(muster, job, "--set", f"devices={devices}", **machine.env) for devices in (4, 1, 2, 1)]
    for run in runs:
        run.until_up()
    held = [run.log().split("\n")[0].split(",") for run in runs]
    assert sorted(id for ids in held for id in ids) == [str(id) for id in range(8)]
    assert [len({int(id) // 4 for id in ids}) for ids in held] == [1, 1, 1, 1]
    go.touch()
    assert [run.end() for run in runs] == ["succeeded"] * 4


@pytest.mark.long
def test_many_runs_at_once_never_have_a_device_at_the_same_time(
    tmp_path: Path, command: list[str], write_job: WriteJob
) -> None:
    machine = Gpus(tmp_path / "m", 3)
    taken = tmp_path / "taken"
    taken.mkdir()
    alone = f"""
        for id in ${{CUDA_VISIBLE_DEVICES//,/ }}; do mkdir {taken}/$id || exit 3; done
        sleep 0.05
        for id in ${{CUDA_VISIBLE_DEVICES//,/ }}; do rmdir {taken}/$id; done
    """
    job = write_job({"command": alone, "device": "nvidia"})
    runs = [
        subprocess.Popen(
            [*command, "run", str(job), "--set", f"devices={1 + index % 3}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **machine.env},
        )
        for index in range(9)
    ]
    assert [run.wait() for run in runs] == [0] * 9


def test_a_run_that_waits_does_not_keep_the_drivers_tools_busy(
    tmp_path: Path, muster: Muster, write_job: WriteJob, go: Path
) -> None:
    machine = Gpus(tmp_path / "m", 1)
    job = write_job({"command": HOLD.format(go=go), "device": "nvidia"})
    first = Started(muster, job, **machine.env)
    first.until_up()
    second = Started(muster, job, **machine.env)
    second.until_waiting()
    began, before = time.monotonic(), len((tmp_path / "m/asked").read_text().splitlines())
    for _ in range(5):
        assert second.id in muster("ps").stdout
    asked = len((tmp_path / "m/asked").read_text().splitlines()) - before
    assert asked <= 2 + (time.monotonic() - began) / DEVICE_PAUSE
    go.touch()
    assert (first.end(), second.end()) == ("succeeded", "succeeded")


def test_a_run_that_waits_can_be_stopped_and_the_one_that_holds_does_not_mind(
    tmp_path: Path, muster: Muster, write_job: WriteJob, go: Path
) -> None:
    machine = Gpus(tmp_path / "m", 1)
    job = write_job({"command": HOLD.format(go=go), "device": "nvidia"})
    first = Started(muster, job, **machine.env)
    first.until_up()
    second = Started(muster, job, **machine.env)
    second.until_waiting()
    assert muster("stop", second.id).returncode == 0
    assert (second.state, view(second.run).attempts) == ("stopped", ())
    go.touch()
    assert first.end() == "succeeded"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_devices_of_a_run_that_is_killed_are_free_for_the_next(
    number: signal.Signals, containment: str, tmp_path: Path, muster: Muster, write_job: WriteJob, go: Path
) -> None:
    machine = Gpus(tmp_path / "m", 2)
    job = write_job({"command": HOLD.format(go=go), "device": "nvidia", "devices": 2})
    first = Started(muster, job, **machine.env)
    first.until_up()
    second = Started(muster, job, **machine.env)
    second.until_waiting()
    os.kill(int(json.loads(Path(first.run.run).read_text())["handle"].split(":")[0]), number)
    second.until_up()
    assert gone(f"MUSTER_RUN={first.id}") == []
    go.touch()
    assert second.end() == "succeeded"
    muster("reconcile", first.id)
    assert first.state == ("lost" if number == signal.SIGKILL else "stopped")


def test_a_retried_run_keeps_its_devices_between_attempts(
    tmp_path: Path, muster: Muster, write_job: WriteJob, go: Path
) -> None:
    machine = Gpus(tmp_path / "m", 1)
    twice = f'if [ "$MUSTER_ATTEMPT" = 1 ]; then touch {go}.1; until [ -e {go} ]; do sleep 0.02; done; exit 5; fi'
    first = Started(muster, write_job({"command": twice, "device": "nvidia", "retries": 1}), **machine.env)
    until(lambda: os.path.exists(f"{go}.1"))
    second = Started(muster, write_job({"command": "echo up", "device": "nvidia"}), **machine.env)
    second.until_waiting()
    go.touch()
    assert (first.end(), second.end()) == ("succeeded", "succeeded")
    first_done, second_began = view(first.run).attempts[-1].ended, view(second.run).attempts[0].started
    assert first_done and second_began and first_done <= second_began


# -- used by somebody else


@pytest.fixture
def foreign() -> Iterator[int]:
    """A process that is none of a run's."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def test_a_gpu_with_a_foreign_process_is_left_alone_and_another_is_taken(
    tmp_path: Path, run_json: RunJson, write_job: WriteJob
) -> None:
    machine = Gpus(tmp_path / "m", 3)
    machine.used_by({0: os.getpid(), 2: os.getpid()})
    run = run_json(write_job({"command": SHOW, "device": "nvidia"}), **machine.env)
    assert seen(run)[0]["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize("kind", ["nvidia", "ascend"])
def test_a_run_waits_for_a_foreign_process_names_it_and_starts_when_it_is_off_the_device(
    kind: str, foreign: int, tmp_path: Path, muster: Muster, write_job: WriteJob
) -> None:
    machine = Gpus(tmp_path / "m", 1) if kind == "nvidia" else Npus(tmp_path / "m", 0)
    machine.used_by({0: foreign})
    run = Started(muster, write_job({"command": "echo up", "device": kind}), **machine.env)
    reason = run.until_waiting()
    assert reason == f"waiting for devices: process {foreign} (sleep) of {getpass.getuser()} uses {kind} 0"
    machine.used_by({})
    assert run.end() == "succeeded"


def test_a_driver_that_fails_for_a_while_makes_a_run_wait_and_not_simulate(
    tmp_path: Path, muster: Muster, write_job: WriteJob
) -> None:
    machine = Gpus(tmp_path / "m", 1)
    broken = tmp_path / "m" / "broken"  # the tool fails from when the run's supervisor asks
    broken.touch()
    run = Started(muster, write_job({"command": f"echo up; {SHOW}", "device": "auto"}), **machine.env)
    assert run.until_waiting() == "waiting for devices: nvidia-smi does not work: Failed to initialize NVML"
    broken.unlink()
    assert run.end() == "succeeded"
    assert "CUDA_VISIBLE_DEVICES=0\n" in run.log()


# -- held by another user

OTHER = """
import os, shutil, sys  # all before the change of user, who may not read this code
from muster.agent.supervisor.device_locks import Queue
os.setgroups([]); os.setgid(65534); os.setuid(65534)
held = Queue("nvidia", 1, 1).take()
print("holds", held.nodes[0][0].id, flush=True)
sys.stdin.read()
"""


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_a_device_that_another_user_holds_is_not_taken_and_that_user_is_named(muster: Muster, write_job: WriteJob) -> None:
    with tempfile.TemporaryDirectory() as folder:  # the folder of a test is for its own user alone
        os.chmod(folder, 0o755)
        machine = Gpus(Path(folder, "m"), 1)
        held_by_another(machine, muster, write_job)


def held_by_another(machine: Gpus, muster: Muster, write_job: WriteJob) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **machine.env},
    ) as other:
        assert other.stdin and other.stdout
        assert other.stdout.readline() == "holds 0\n"
        run = Started(muster, write_job({"command": "echo up", "device": "nvidia"}), **machine.env)
        reason = run.until_waiting()
        assert f"of {pwd.getpwuid(65534).pw_name} holds nvidia 0" in reason
        assert str(other.pid) in reason
        other.stdin.close()
        assert run.end() == "succeeded"
