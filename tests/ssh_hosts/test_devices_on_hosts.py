"""Devices of hosts: taken on all of them or on none, waited for with the name of who has them, and refused where they lack."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_devices import Gpus, Machine, Npus

from conftest import Muster, WriteJob, until
from host_machines import Machines
from muster.records.derive import view
from muster.records.layout import RunDir

RunJson = Callable[..., dict[str, Any]]
OnHosts = Callable[..., None]

pytestmark = pytest.mark.long

# What takes part in a run has its devices for itself: a second one on them would find the directory.
ALONE = """
import os, time
ids = os.environ["ASCEND_RT_VISIBLE_DEVICES"].split(",")
for id in ids:
    os.mkdir("/root/taken/" + id)
time.sleep(0.1)
for id in ids:
    os.rmdir("/root/taken/" + id)
"""
SEEN = Path("/root/devices")  # on a host
HOLD = "echo up; until [ -e /root/go ]; do sleep 0.02; done"


class Equipped:
    """Gives hosts devices, in their own file systems."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def npus(self, name: str, *ids: int) -> Npus:
        address = f"192.168.1{name[1:]}{{}}.1"
        npus = Npus(self._folder(name), *ids, seen=SEEN, address=address)
        self._install(name, npus)
        return npus

    def gpus(self, name: str, count: int) -> Gpus:
        gpus = Gpus(self._folder(name), count, SEEN)
        self._install(name, gpus)
        return gpus

    def _folder(self, name: str) -> Path:
        return self.machines.home(name) / "devices"

    def _install(self, name: str, machine: Machine) -> None:
        path = f"{SEEN}/bin:/usr/local/bin:/usr/bin:/bin"
        self.machines.set_environment(name, **{**machine.env, "PATH": path})


@pytest.fixture
def equipped(machines: Machines) -> Iterator[Equipped]:
    yield Equipped(machines)
    for name in machines.names:
        shutil.rmtree(machines.home(name) / "devices", ignore_errors=True)
        shutil.rmtree(machines.home(name) / "taken", ignore_errors=True)
        (machines.home(name) / "go").unlink(missing_ok=True)


class Started:
    """A run in the background, submitted for some hosts."""

    def __init__(self, muster: Muster, job: Path, *hosts: str) -> None:
        done = muster("run", job, "--detach", "--json", "--hosts", ",".join(hosts))
        assert done.returncode == 0, done.stderr
        self.muster = muster
        self.run = RunDir(json.loads(done.stdout)["dir"])

    @property
    def log(self) -> str:
        return "".join(log.read_text() for log in Path(self.run.path).glob("attempts/*/nodes/*/logs/rank-*.log"))

    def until_up(self) -> None:
        until(lambda: "up\n" in self.log)

    def until_waiting(self) -> str:
        return str(until(lambda: view(self.run).reason if "waiting for devices" in view(self.run).reason else ""))

    def end(self) -> str:
        self.muster("wait", self.run.id, timeout=120)
        return str(view(self.run).state)

    @property
    def supervisor(self) -> int:
        return int(json.loads(Path(self.run.run).read_text())["handle"].split(":")[0])


def go(machines: Machines) -> None:
    for name in machines.names:
        (machines.home(name) / "go").touch()


def test_runs_that_want_the_same_hosts_in_opposite_order_all_end_and_never_share_a_device(
    machines: Machines, equipped: Equipped, on_hosts: OnHosts, muster: Muster, write_job: WriteJob
) -> None:
    """Half of them log in as another user of the hosts."""
    on_hosts()
    for name in ("h1", "h2"):
        equipped.npus(name, *range(8))
        (machines.home(name) / "taken").mkdir()
        (machines.home(name) / "taken").chmod(0o777)
    job = write_job({"python": "python3", "nodes": 2, "devices": 8, "device": "ascend", "per": "node"}, **{"train.py": ALONE})
    orders = [("h1", "h2"), ("trainer@h2", "trainer@h1")] * 3
    runs = [Started(muster, job, *order) for order in orders]
    assert [run.end() for run in runs] == ["succeeded"] * len(runs), [view(run.run).reason for run in runs]


def test_a_machine_that_is_named_twice_by_different_names_is_told_as_such(
    machines: Machines, equipped: Equipped, on_hosts: OnHosts, run_json: RunJson, muster: Muster, write_job: WriteJob
) -> None:
    """Its second node would wait for the devices of its first."""
    on_hosts("h1", "trainer@h1")
    equipped.gpus("h1", 2)
    job = write_job({"command": "true", "nodes": 2, "devices": 2, "device": "nvidia"})
    checked, view = muster("run", job, "--check"), run_json(job)
    words = "the same machine as h1: the job asks for 2 times 2 nvidia devices, and it has 2; name each machine once"
    assert (view["state"], f"trainer@h1 is {words}" in view["reason"]) == ("failed", True), view["reason"]
    assert checked.returncode == 2
    assert "has trainer@h1, which is the same machine as h1, and the job asks for 2 times 2 nvidia devices" in checked.stderr
    assert run_json(write_job({"command": "true", "nodes": 2, "devices": 1, "device": "nvidia"}))["state"] == "succeeded"


def test_a_run_that_waits_names_the_host_and_the_run_and_user_who_holds_and_holds_nothing_itself(
    machines: Machines, equipped: Equipped, on_hosts: OnHosts, muster: Muster, write_job: WriteJob
) -> None:
    on_hosts()
    for name in ("h1", "h2", "h3"):
        equipped.gpus(name, 2)
    alone = write_job({"command": HOLD, "devices": 2, "device": "nvidia"})
    first = Started(muster, alone, "h2")
    first.until_up()
    job = write_job({"command": "echo both", "devices": 2, "device": "nvidia", "nodes": 2, "time_limit": "2s"})
    second = Started(muster, job, "h1", "h2")
    assert second.until_waiting() == f"h2: waiting for devices: run {first.run.id} of root holds nvidia 0, 1"
    job = write_job({"command": "echo beside", "devices": 2, "device": "nvidia", "nodes": 2})
    assert Started(muster, job, "h3", "h1").end() == "succeeded", "h1 is free as long as h2 is not"
    time.sleep(2)
    go(machines)
    assert (first.end(), second.end()) == ("succeeded", "succeeded"), "waiting is no part of the time limit"
    assert second.log.count("both\n") == 2


def test_a_run_that_waits_can_be_stopped(
    machines: Machines, equipped: Equipped, on_hosts: OnHosts, muster: Muster, write_job: WriteJob
) -> None:
    on_hosts()
    equipped.gpus("h1", 1)
    job = write_job({"command": HOLD, "device": "nvidia"})
    first = Started(muster, job, "h1")
    first.until_up()
    second = Started(muster, job, "h1")
    second.until_waiting()
    assert muster("stop", second.run.id).returncode == 0
    assert str(view(second.run).state) == "stopped"
    go(machines)
    assert first.end() == "succeeded"


def test_a_submitter_that_is_killed_before_the_start_leaves_no_device_held(
    machines: Machines, equipped: Equipped, on_hosts: OnHosts, muster: Muster, write_job: WriteJob
) -> None:
    """It dies while h1 is held and h2 still looks, with a slow tool. `lost_after` is an hour, and nobody waits for that."""
    on_hosts(lost_after="1h")
    equipped.gpus("h1", 1)
    gpus = equipped.gpus("h2", 1)
    tool = (gpus.folder / "bin/nvidia-smi").read_text()
    gpus.tool("nvidia-smi", tool.replace("#!/bin/sh", "#!/bin/sh\ntouch /root/asked\nsleep 2"))
    first = Started(muster, write_job({"command": "true", "device": "nvidia", "nodes": 2}), "h1", "h2")
    until((machines.home("h2") / "asked").exists)
    os.kill(first.supervisor, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{first.supervisor}"))
    second = Started(muster, write_job({"command": "true", "device": "nvidia", "nodes": 2}), "h1", "h2")
    assert second.end() == "succeeded"
    (machines.home("h2") / "asked").unlink()
    assert muster("stop", first.run.id).returncode == 0


@pytest.mark.parametrize("kind", ["nvidia", "ascend"])
def test_each_run_gets_as_many_devices_as_it_asks_for_and_others_get_the_rest(
    kind: str, machines: Machines, equipped: Equipped, on_hosts: OnHosts, muster: Muster, write_job: WriteJob
) -> None:
    on_hosts()
    equipped.gpus("h1", 8) if kind == "nvidia" else equipped.npus("h1", *range(8))
    variable = "CUDA_VISIBLE_DEVICES" if kind == "nvidia" else "ASCEND_RT_VISIBLE_DEVICES"
    job = write_job({"command": f"echo ${variable}; {HOLD}", "device": kind, "devices": 4})
    runs = [Started(muster, job, "h1") for _ in range(2)]
    for run in runs:
        run.until_up()
    assert sorted(run.log.splitlines()[0] for run in runs) == ["0,1,2,3", "4,5,6,7"]
    go(machines)
    assert [run.end() for run in runs] == ["succeeded"] * 2


LACKING: dict[str, tuple[Callable[[Equipped], object], str]] = {
    "fewer": (lambda equipped: equipped.npus("h2", 0, 1, 2, 3), "the job asks for 8 ascend devices, and it has 4"),
    "none": (lambda equipped: None, "the job asks for ascend devices, and it has none"),
    "others": (lambda equipped: equipped.gpus("h2", 8), "the job asks for ascend devices, and it has none"),
}


@pytest.mark.parametrize("how", LACKING)
def test_a_host_that_can_never_give_the_devices_ends_the_run_at_its_start_with_its_name_and_numbers(
    how: str, machines: Machines, equipped: Equipped, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2")
    equipped.npus("h1", *range(8))
    equip, words = LACKING[how]
    equip(equipped)
    ended = run_json(write_job({"command": "true", "device": "ascend", "devices": 8, "nodes": 2}))
    assert (ended["exit"], ended["state"], ended["attempts"]) == (1, "failed", [])
    assert ended["reason"] == f"h2: {words}"


def test_a_number_of_devices_that_no_host_can_give_is_refused_before_anything_is_created(
    on_hosts: OnHosts, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    on_hosts("h1")
    done = muster("run", write_job({"command": "true", "device": "ascend", "devices": 3}))
    assert done.returncode == 2
    assert "1, 2 or 4 devices of one ring, or all 8; not 3" in done.stderr
    assert not (home / "runs").exists()


def test_rank_tables_have_the_addresses_of_each_hosts_own_devices(
    machines: Machines, equipped: Equipped, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2")
    hosts = {name: equipped.npus(name, *range(8)) for name in ("h1", "h2")}
    look = """
    import json, os
    print(json.dumps({"table": json.load(open(os.environ["RANK_TABLE_FILE"])), "rank": os.environ["RANK_ID"],
                      "device": os.environ["DEVICE_ID"]}))
    """
    fields = {"python": "python3", "framework": "mindspore", "device": "ascend", "devices": 8, "nodes": 2}
    ended = run_json(write_job(fields, **{"train.py": look}))
    assert ended["state"] == "succeeded", ended["reason"]
    told = [json.loads(Path(rank["log"]).read_text()) for rank in ended["attempts"][0]["ranks"]]
    servers = []
    for number, (name, npus) in enumerate(hosts.items()):
        lines = dict(line.split("=") for line in (npus.folder / "root/etc/hccn.conf").read_text().splitlines())
        devices = [
            {"device_id": str(id), "device_ip": lines[f"address_{id}"], "rank_id": str(8 * number + id)} for id in range(8)
        ]
        servers.append({"server_id": machines.address(name), "device": devices})
    assert told[0]["table"] == {"version": "1.0", "server_count": "2", "server_list": servers, "status": "completed"}
    assert all(rank["table"] == told[0]["table"] for rank in told)
    assert [(rank["rank"], rank["device"]) for rank in told] == [(str(rank), str(rank % 8)) for rank in range(16)]
