"""Nodes of a pool of hosts: their devices, checks over ssh and between them, hosts that hang, and hosts that come back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from fake_devices import Gpus
from run_client import run_client

from conftest import until
from host_machines import Machines
from muster.server.core.database import Database
from muster.server.runs.pools.nodes.watch import NodeWatch
from muster.server.runs.pools.pool import Pools
from muster_server import ServeMuster

pytestmark = pytest.mark.long
SETTINGS = """
[hosts.lab]
nodes = ["root@h1", "root@h2", "root@h3", "root@h4"]
[pools.lab]
engine = "ssh"
hosts = "lab"
trusted = true
check_every = "1s"
labels = {rack = "a"}
"""
SEEN = Path("/root/devices")  # on a host
HOLD = """
import socket, time
lock = socket.socket(socket.AF_UNIX)
lock.bind(b"\\0muster/device/nvidia/%s")
lock.listen()
print("up", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def gpus(machines: Machines) -> Iterator[dict[str, Gpus]]:
    """Each host has two devices."""
    found = {}
    for name in machines.names:
        found[name] = Gpus(machines.home(name) / "devices", 2, SEEN)
        machines.set_environment(name, **{**found[name].env, "PATH": f"{SEEN}/bin:/usr/local/bin:/usr/bin:/bin"})
    yield found
    for name in machines.names:
        shutil.rmtree(machines.home(name) / "devices", ignore_errors=True)


@contextmanager
def watching(folder: Path, settings: str = SETTINGS) -> Iterator[NodeWatch]:
    data = folder / "data"
    (data / "scratch").mkdir(parents=True)
    (data / "config.toml").write_text(settings)
    with closing(Database(f"sqlite:///{folder}/server.db")) as database:
        database.migrate()
        found = NodeWatch(database, Pools(data), data)
        with found.running():
            until(lambda: found.known("lab"), 90)
            yield found


def unusable(nodes: NodeWatch) -> dict[str, str]:
    """Why nodes are left out, by node."""
    return {node.name: str(node.unusable.values["why"]) for node in nodes.pool("lab").nodes if node.unusable}


def test_hosts_are_nodes_with_devices_labels_and_holders(gpus: dict[str, Gpus], machines: Machines, tmp_path: Path) -> None:
    hold = HOLD % gpus["h2"].ids[1]
    ssh = subprocess.Popen(["ssh", "root@h2", f"exec python3 -c '{hold}'"], stdout=subprocess.PIPE)
    assert ssh.stdout
    assert ssh.stdout.readline() == b"up\n"
    own = '[pools.lab.nodes."h[3-4]"]\nlabels = {rack = "b"}\n'
    with watching(tmp_path, SETTINGS + own) as nodes:
        pool = nodes.pool("lab")
        assert (pool.shares_nodes, [node.name for node in pool.nodes]) == (False, machines.names)
        assert [node.labels["rack"] for node in pool.nodes] == ["a", "a", "b", "b"]
        assert all(node.devices == {"nvidia": (0, 1)} and node.cpus and node.memory for node in pool.nodes)
        assert [node.held for node in pool.nodes] == [{}, {"nvidia": frozenset({1})}, {}, {}]
        assert "(python3" in nodes.state("lab").nodes["h2"].devices[1].who
        for pid in machines.pids("h2"):
            if b"muster/device" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        ssh.wait(30)
        ssh.stdout.close()
        until(lambda: not any(node.held for node in nodes.pool("lab").nodes))


def test_a_host_that_is_gone_is_left_out_and_returns_by_itself(machines: Machines, tmp_path: Path) -> None:
    with watching(tmp_path) as nodes:
        machines.power_off("h3")
        try:
            until(lambda: unusable(nodes), 90)
            assert list(unusable(nodes)) == ["h3"]
            checked = nodes.state("lab").nodes["h1"].checked
            until(lambda: nodes.state("lab").nodes["h1"].checked != checked)
        finally:
            machines.boot("h3")
        until(lambda: not unusable(nodes), 90)


def test_a_host_that_hangs_holds_up_no_other(machines: Machines, tmp_path: Path) -> None:
    with watching(tmp_path) as nodes:
        frozen = machines.pids("h2")
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(3):  # while h2 says nothing, the others are checked again and again
                checked = nodes.state("lab").nodes["h1"].checked
                until(lambda checked=checked: nodes.state("lab").nodes["h1"].checked != checked)  # type: ignore[misc]
            until(lambda: unusable(nodes), 90)
            assert list(unusable(nodes)) == ["h2"]
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        until(lambda: not unusable(nodes), 90)


def test_hosts_that_do_not_reach_each_other_fail_the_all_reduce(machines: Machines, tmp_path: Path) -> None:
    with watching(tmp_path, SETTINGS + "all_reduce = true\n") as nodes:
        until(lambda: nodes._tasks["lab", "ring", ""].ended is not None and nodes._tasks["lab", "ring", ""].failures == 0, 90)
        assert unusable(nodes) == {}
        machines.ip("h2", "route", "add", "unreachable", machines.address("h3"))
        try:
            until(lambda: unusable(nodes), 90)
            [(name, why)] = unusable(nodes).items()
            assert (name, why.startswith("it is not reached from root@h2: ")) == ("h3", True), why
        finally:
            machines.ip("h2", "route", "del", "unreachable", machines.address("h3"))
        until(lambda: not unusable(nodes), 90)


def test_devices_of_the_servers_own_runs_are_not_held_by_others(
    gpus: dict[str, Gpus], machines: Machines, serve_muster: ServeMuster
) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text(SETTINGS)
    server.start()
    with run_client(server, administrator) as client:
        run = client.submit("command: sleep 1000\nnodes: 2\ndevice: nvidia\ndevices: 2\ngrace: 0s")
        until(lambda: client.get(run)["state"] == "running", 60)
        assert client.get(run)["job"]["hosts"]["lost_after"] == 900.0

        def used() -> list[tuple[int, int]]:
            nodes = client.http.get("/api/v1/pools/lab").json()["nodes"]
            return [(one["devices"][0]["used"], one["devices"][0]["others"]) if one["devices"] else (0, 0) for one in nodes]

        checked = client.http.get("/api/v1/pools/lab").json()["nodes"][0]["checked"]
        until(lambda: client.http.get("/api/v1/pools/lab").json()["nodes"][0]["checked"] != checked, 60)
        assert used() == [(2, 0), (2, 0), (0, 0), (0, 0)]
        client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        client.wait(run)
        until(lambda: used() == [(0, 0)] * 4, 60)
