"""Nodes of pools: what they have, who uses it, whether they pass their checks, and which are drained."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fake_devices import Gpus, Npus
from run_client import RunClient, run_client
from sqlalchemy import func, select

from conftest import until
from muster.agent.supervisor.device_locks import Queue
from muster.engines.ssh.options import HostsOptions
from muster.engines.ssh.report import Disk, Report
from muster.job import Job
from muster.server.core.database import Database
from muster.server.core.tables import audit
from muster.server.runs.pools.nodes import health, watch
from muster.server.runs.pools.nodes.state import NodeState
from muster.server.runs.pools.nodes.watch import NodeWatch
from muster.server.runs.pools.pool import Pools
from muster.server.runs.queue import choosing
from muster_server import Administered, MusterServer, server_folder

SETTINGS = '[pools.here]\ntrusted = true\ncheck_every = "300ms"\n'
MakeWatch = Callable[..., NodeWatch]


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    found = Gpus(tmp_path / "machine", 4)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as database:
        database.migrate()
        yield database


@contextmanager
def watching(database: Database, folder: Path, settings: str = SETTINGS) -> Iterator[NodeWatch]:
    """Watches the nodes of pools; returns once all of them were checked."""
    data = folder / "data"
    (data / "scratch").mkdir(parents=True, exist_ok=True)
    (data / "config.toml").write_text(settings)
    pools = Pools(data)
    found = NodeWatch(database, pools, data)
    with found.running():
        until(lambda: all(found.known(name) for name in pools.all))
        yield found


def test_the_scheduler_sees_devices_with_models_and_labels(gpus: Gpus, database: Database, tmp_path: Path) -> None:
    settings = SETTINGS + 'cpu = 6\nlabels = {rack = "a"}\nminimum_runtime = "1m"\nruns = 9\n'
    with watching(database, tmp_path, settings) as nodes:
        pool = nodes.pool("here")
        [node] = pool.nodes
    assert (pool.runs, pool.shares_nodes, pool.passes_on, pool.minimum_runtime, pool.drained) == (9, True, False, 60.0, None)
    assert (node.name, node.unusable, node.labels) == ("localhost", None, {"rack": "a"})
    assert node.devices == {"nvidia": (0, 1, 2, 3), "cpu": (0, 1, 2, 3, 4, 5)}
    assert node.models == {"nvidia": "NVIDIA A100-SXM4-40GB"}
    assert node.cpus == len(os.sched_getaffinity(0))
    assert node.memory


def test_ascend_chips_have_the_name_that_npu_smi_says(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npus = Npus(tmp_path / "machine", 0, 1)
    for name, value in npus.env.items():
        monkeypatch.setenv(name, value)
    with watching(database, tmp_path) as nodes:
        assert nodes.pool("here").nodes[0].models == {"ascend": "Ascend 910B3"}
    npus.tool("npu-smi", "#!/bin/sh\n")  # it shows no chips
    with watching(database, tmp_path) as nodes:
        assert nodes.pool("here").nodes[0].models == {"ascend": "Ascend"}


def test_devices_of_others_are_held_until_they_let_go(gpus: Gpus, database: Database, tmp_path: Path) -> None:
    held = Queue("nvidia", 1, 2).take()
    assert held is not None
    gpus.used_by({3: os.getpid()})
    with watching(database, tmp_path) as nodes:
        assert nodes.pool("here").nodes[0].held == {"nvidia": frozenset({0, 1, 3})}
        [state] = nodes.state("here").nodes.values()
        assert [f"process {os.getpid()} " in device.who for device in state.devices] == [True, True, False, True]
        gpus.used_by({})
        until(lambda: nodes.pool("here").nodes[0].held == {"nvidia": frozenset({0, 1})})
        held.close()
        until(lambda: not nodes.pool("here").nodes[0].held)


def test_a_holder_is_asked_who_it_is_only_once(
    gpus: Gpus, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.agent.supervisor.device_locks.MOST_WAITING", 1)
    held = Queue("nvidia", 1, 1).take()
    assert held is not None
    with watching(database, tmp_path) as nodes:
        before = nodes.state("here").nodes["localhost"]
        for _ in range(4):
            now = nodes.state("here").nodes["localhost"]
            until(lambda now=now: nodes.state("here").nodes["localhost"].checked != now.checked)  # type: ignore[misc]
        assert nodes.state("here").nodes["localhost"].devices == before.devices
        assert f"process {os.getpid()} " in before.devices[0].who
    held.close()


def test_a_node_whose_devices_stop_answering_is_left_out_and_returns(gpus: Gpus, database: Database, tmp_path: Path) -> None:
    working = (gpus.folder / "bin" / "nvidia-smi").read_text()
    with watching(database, tmp_path) as nodes:
        gpus.tool("nvidia-smi", "#!/bin/sh\necho 'No devices were found' >&2\nexit 6\n")
        until(lambda: nodes.pool("here").nodes[0].unusable)
        reason = nodes.pool("here").nodes[0].unusable
        assert reason is not None
        assert reason.code == "failed_check"
        assert "its nvidia devices do not answer: nvidia-smi does not work: No devices were found" in str(reason.values["why"])
        assert nodes.pool("here").nodes[0].devices == {"nvidia": (0, 1, 2, 3)}  # a job may still wait for them
        gpus.tool("nvidia-smi", working)
        until(lambda: nodes.pool("here").nodes[0].unusable is None)


def test_a_check_that_hangs_is_given_up_and_holds_up_nothing(
    gpus: Gpus, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "HANGS", 0.5)
    working = (gpus.folder / "bin" / "nvidia-smi").read_text()
    with watching(database, tmp_path) as nodes:
        gpus.tool("nvidia-smi", f"#!/bin/sh\nuntil [ -e {tmp_path}/go ]; do sleep 0.05; done\nexit 9\n")
        until(lambda: nodes.pool("here").nodes[0].unusable)
        assert "its check hangs" in str(nodes.pool("here").nodes[0].unusable)
        (tmp_path / "go").touch()
        gpus.tool("nvidia-smi", working)
        until(lambda: nodes.pool("here").nodes[0].unusable is None)


def test_nothing_starts_on_a_node_with_too_little_disk_or_memory_and_it_still_counts(
    gpus: Gpus, database: Database, tmp_path: Path
) -> None:
    for setting, said in (("disk_free", "scratch/check has"), ("memory_free", "of memory free")):
        with watching(database, tmp_path, f'{SETTINGS}{setting} = "1000T"\n') as nodes:
            node = nodes.pool("here").nodes[0]
            assert node.unusable is None
            reason = str(node.short)
            assert (said in reason, "1000.0T are needed" in reason) == (True, True), reason


def test_an_old_check_is_repeated_before_a_run_starts(gpus: Gpus, database: Database, tmp_path: Path) -> None:
    with watching(database, tmp_path, SETTINGS.replace("300ms", "1h")) as nodes:
        assert nodes.fresh("here", ["localhost"])
        task = nodes._tasks["here", "", "localhost"]
        assert task.ended is not None
        task.ended -= 2 * 3600
        assert not nodes.fresh("here", ["localhost", "localhost"])
        until(lambda: nodes.fresh("here", ["localhost"]))


class Served:
    """A server with a pool of four devices, asked by an administrator, and a user of it."""

    def __init__(self, server: MusterServer, admin: httpx.Client, client: RunClient, token: str) -> None:
        self.server, self.admin, self.client, self.token = server, admin, client, token

    def pool(self, who: httpx.Client | None = None) -> dict[str, Any]:
        answer = (who or self.admin).get("/api/v1/pools/here")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def node(self, who: httpx.Client | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self.pool(who)["nodes"][0]
        return found


@pytest.fixture
def served(gpus: Gpus) -> Iterator[Served]:
    server = MusterServer(server_folder(), [])
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text(SETTINGS)
    server.start()
    try:
        token = server.make_administrator()
        with run_client(server, token) as client, server.http(token) as admin:
            found = Served(server, admin, client, token)
            until(lambda: found.pool()["states"]["unchecked"] == 0)
            yield found
    finally:
        server.kill()
        shutil.rmtree(server.folder)


def test_who_uses_what_is_shown_to_those_who_may_see_the_runs(served: Served) -> None:
    held = Queue("nvidia", 1, 1).take()
    assert held is not None
    run = served.client.submit("command: sleep 1000\ndevice: nvidia\ndevices: 2\ngrace: 0s")
    until(lambda: served.client.get(run)["state"] == "running")
    until(lambda: served.node()["others"])
    mine = served.node(served.client.http)
    assert (mine["devices"][0]["used"], mine["devices"][0]["others"], mine["devices"][0]["free"]) == (2, 1, 1)
    assert [(one["run"], one["devices"], one["kind"]) for one in mine["runs"]] == [(run, 2, "nvidia")]
    assert (mine["hidden_runs"], mine["others"]) == (0, [{"kind": "nvidia", "id": 0, "who": None}])
    assert f"process {os.getpid()} " in served.node()["others"][0]["who"]
    with run_client(served.server, served.token) as other:  # of another project, which the pool serves as well
        seen = served.node(other.http)
        assert (seen["runs"], seen["hidden_runs"], seen["devices"]) == ([], 1, mine["devices"])
    served.client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
    served.client.wait(run)
    held.close()
    until(lambda: served.node()["devices"][0]["free"] == 4)
    assert served.node()["runs"] == []


def test_a_drained_node_starts_nothing_new_and_what_runs_goes_on(served: Served) -> None:
    before = served.client.submit("command: sleep 1000\ndevice: nvidia\ngrace: 0s")
    until(lambda: served.client.get(before)["state"] == "running")
    served.admin.post("/api/v1/pools/here/drain", json={"node": "localhost", "reason": "new fan"})
    run = served.client.submit("command: echo hello\ndevice: nvidia")
    until(lambda: "new fan" in str(served.client.get(run)["reason"]))
    assert (served.client.get(run)["state"], served.client.get(before)["state"]) == ("pending", "running")
    served.admin.delete("/api/v1/pools/here/drain", params={"node": "localhost"})
    assert served.client.wait(run)["state"] == "succeeded"
    served.client.http.post(f"/api/v1/runs/{before}/stop", json={"now": True})
    served.client.wait(before)


def test_states_are_logged_and_counted(served: Served, gpus: Gpus) -> None:
    assert 'muster_pool_nodes{pool="here",state="usable"} 1' in served.admin.get("/metrics").text
    assert 'muster_pool_devices{pool="here",kind="nvidia",use="free"} 4' in served.admin.get("/metrics").text
    gpus.tool("nvidia-smi", "#!/bin/sh\nexit 9\n")
    until(lambda: served.node()["state"] == "failed")
    text = served.admin.get("/metrics").text
    assert 'muster_pool_nodes{pool="here",state="failed"} 1' in text
    assert 'muster_pool_devices{pool="here",kind="nvidia",use="free"} 0' in text
    [entry] = served.server.entries("a node failed its check")
    assert (entry["pool"], entry["node"], "do not answer" in entry["reason"]) == ("here", "localhost", True)


def test_administrators_drain_a_node_or_a_pool_and_resume_it(administered: Administered) -> None:
    with administered.server.http(administered.administrator) as admin:
        path = "/api/v1/pools/local/drain"
        assert admin.post(path, json={"node": "nowhere"}).status_code == 404
        assert admin.post(path, content=b'{"reason": "half \\ud800 letters"}').status_code == 400
        made = admin.post(path, json={"node": "localhost", "reason": "new fan"})
        assert (made.status_code, made.json()["by"]) == (200, "admin")
        node = admin.get("/api/v1/pools/local").json()["nodes"][0]
        assert (node["state"], node["drained"]["reason"]) == ("drained", "new fan")
        assert admin.delete(path).status_code == 409  # the pool itself is not
        assert admin.delete(path, params={"node": "localhost"}).status_code == 204
        assert admin.post(path, json={}).status_code == 200
        assert admin.get("/api/v1/pools/local").json()["drained"]["by"] == "admin"
        assert admin.delete(path).status_code == 204
        assert admin.get("/api/v1/pools/local").json()["drained"] is None
        entries = admin.get("/api/v1/audit", params={"target": "local/localhost"}).json()["items"]
        assert {entry["what"] for entry in entries} == {"pool.drain", "pool.resume"}


def test_drains_outlive_the_server(gpus: Gpus, database: Database, tmp_path: Path) -> None:
    from muster.server.core.access import Caller, Principal
    from muster.server.runs.pools.nodes import drains

    caller = Caller("ann", "", Principal("u-1", "ann", "administrator", "write"))
    with database.begin() as connection:
        drains.drain(connection, caller, "here", "localhost", "first")
        drains.drain(connection, caller, "here", "localhost", "new fan")
        drains.drain(connection, caller, "here", "", "")
        assert connection.scalar(select(func.count()).select_from(audit)) == 3
    with watching(database, tmp_path) as nodes:
        pool = nodes.pool("here")
        assert pool.drained is not None
        assert pool.nodes[0].unusable is not None
        assert pool.nodes[0].unusable.values == {"by": "ann", "why": "new fan"}
        with database.begin() as connection:
            assert drains.resume(connection, caller, "here", "localhost")
            assert not drains.resume(connection, caller, "here", "localhost")
        nodes.load_drains()
        assert nodes.pool("here").nodes[0].unusable is None


def test_a_host_that_is_down_since_the_server_started_makes_no_job_impossible(database: Database, tmp_path: Path) -> None:
    hosts = '[hosts.lab]\nnodes = ["127.0.0.1:1"]\n[pools.x]\nengine = "ssh"\nhosts = "lab"\ntrusted = true\n'
    job = Job(command="id", device="nvidia", devices=8)
    with watching(database, tmp_path, hosts) as nodes:  # it has been checked, in vain
        pool = Pools(tmp_path / "data")["x"]
        platform: Any = SimpleNamespace(nodes=nodes)
        choosing.need_possible(platform, job, pool)
        assert choosing.kind_in(platform, Job(command="id", device="auto"), pool) == "auto"
    here = Pools(tmp_path / "data")["here"]
    with watching(database, tmp_path) as nodes, pytest.raises(choosing.Impossible):
        choosing.need_possible(SimpleNamespace(nodes=nodes), job, here)  # type: ignore[arg-type]


@pytest.mark.parametrize(("clock", "error", "fails"), [(901, 0, True), (-901, 0, True), (901, 2, False), (60, 0, False)])
def test_a_node_whose_clock_is_far_off_is_left_out(tmp_path: Path, clock: float, error: float, fails: bool) -> None:
    (tmp_path / "config.toml").write_text(SETTINGS)
    pool = Pools(tmp_path)["here"]
    room = Disk("/tmp", 1 << 40)
    report = Report("n1", memory_free=1 << 40, directory=room, tmp=room, address="10.0.0.1", clock=clock, clock_error=error)
    found = health.judged(report, HostsOptions(("n1",)), pool.settings, NodeState("n1"))
    assert (bool(found.problem), "its clock is" in found.problem) == (fails, fails), found.problem
