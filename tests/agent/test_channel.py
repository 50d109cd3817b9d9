"""The channel between a supervisor and its nodes: what is published and announced, by whom, and in which order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob, needs_ssh
from muster.agent.supervisor import arbiter
from muster.agent.supervisor.arbiter import Arbiter
from muster.agent.supervisor.site import Assignment
from muster.agent.tools import Tools
from muster.channel.directory import DirectoryNode, DirectorySupervisor
from muster.job import Job
from muster.linux.watch import readable
from muster.plan import Device, NodeInfo
from muster.records.files import Events, read_events
from muster.records.layout import NODE_FILES, NODE_FOLDERS, NODE_TOPICS, AttemptDir, RunDir
from muster.records.run_view import Cause, Stop

RunJson = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    found = RunDir(str(tmp_path / "run"))
    for node in range(3):
        os.makedirs(found.attempt(1).node(node).path)
    return found


@pytest.fixture
def attempt(run: RunDir) -> AttemptDir:
    return run.attempt(1)


@pytest.fixture
def supervisor(run: RunDir, attempt: AttemptDir) -> Iterator[DirectorySupervisor]:
    channel = DirectorySupervisor(run, attempt, 3)
    yield channel
    channel.close()


@pytest.fixture
def nodes(supervisor: DirectorySupervisor, attempt: AttemptDir) -> Iterator[list[DirectoryNode]]:
    channels = [DirectoryNode(attempt, node) for node in range(3)]
    yield channels
    for channel in channels:
        channel.close()


def test_the_supervisor_hears_of_what_nodes_publish_in_that_order(
    supervisor: DirectorySupervisor, nodes: list[DirectoryNode]
) -> None:
    nodes[0].publish("facts", {"node": 0})
    assert supervisor.news() == [(0, "facts", {"node": 0})]
    assert not readable([supervisor.fileno()], 0)
    nodes[2].publish("failed", {"code": 2})
    nodes[1].publish("failed", {"code": 1})
    nodes[2].publish("facts", {"node": 2})
    assert readable([supervisor.fileno()], 0)
    assert [(node, topic) for node, topic, _ in supervisor.news()] == [(2, "failed"), (1, "failed"), (2, "facts")]
    assert supervisor.news() == []
    assert supervisor.published("facts") == {0: {"node": 0}, 2: {"node": 2}}


def test_nodes_hear_of_what_is_announced(supervisor: DirectorySupervisor, nodes: list[DirectoryNode]) -> None:
    assert not nodes[1].listen()
    supervisor.announce("world", {"size": 3})
    assert readable([nodes[1].fileno()], 0)
    assert nodes[1].listen()
    assert nodes[1].announced("world") == {"size": 3}
    assert nodes[1].announced("stop") is None
    nodes[2].publish("done", {})
    assert not nodes[1].listen()


def test_what_no_node_may_publish_is_not_news(
    supervisor: DirectorySupervisor, nodes: list[DirectoryNode], attempt: AttemptDir
) -> None:
    largest = NODE_TOPICS["done"]
    Path(attempt.node(0).topic("done")).write_text(json.dumps({"text": "x" * largest}))
    for name in ("done.0", "done.7", "done.x", "done.²", "secret.1", "stop"):
        Path(attempt.meet, name).symlink_to("../nodes/0/done.json")
    assert supervisor.news() == []
    nodes[0].publish("done", {})  # in the place of what a rank has put there
    assert supervisor.news() == [(0, "done", {})]


def test_keys_lie_where_they_are_deleted_with_the_attempt(
    supervisor: DirectorySupervisor, nodes: list[DirectoryNode], attempt: AttemptDir
) -> None:
    supervisor.announce("keys", {"user": "secret"})
    assert nodes[0].announced("keys") == {"user": "secret"}
    assert os.listdir(attempt.meet) == []
    assert Path(attempt.ssh).stat().st_mode & 0o777 == 0o700


def test_progress_is_what_ranks_write(supervisor: DirectorySupervisor, run: RunDir, attempt: AttemptDir) -> None:
    os.makedirs(attempt.node(2).logs)
    os.makedirs(run.shared)
    seen = [supervisor.progress()]
    for path in (f"{attempt.node(2).logs}/rank-2.log", f"{run.shared}/checkpoint"):
        Path(path).write_text("step")
        seen.append(supervisor.progress())
    assert seen[0] != seen[1] != seen[2]
    assert supervisor.progress() == seen[2]


# -- the supervisor alone decides


@pytest.fixture
def decide(
    supervisor: DirectorySupervisor, run: RunDir, attempt: AttemptDir, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Stop | None]]:
    """Lets the supervisor decide once; returns the stop that it has announced."""
    monkeypatch.setattr(arbiter, "SETTLE", 0.0)
    job = Job(name="job", nodes=3, command="true", framework="command")
    assignment = Assignment(run, job, "/code", Tools("python", "agent.pyz"), False)
    events = Events(run.events)
    chosen = Arbiter(assignment, attempt, supervisor, events)

    def once() -> Stop | None:
        chosen.decide()
        return chosen.stop

    yield once
    events.close()


def meet(nodes: list[DirectoryNode], *chosen: int) -> None:
    for node in chosen:
        info = NodeInfo(node, f"node-{node}", f"10.0.0.{node}", "cpu", (Device("0"),), (20000,), 1)
        nodes[node].publish("facts", info.to_json())


def test_the_world_is_announced_once_all_nodes_have_published_facts(
    decide: Callable[[], Stop | None], nodes: list[DirectoryNode]
) -> None:
    meet(nodes, 1, 2)
    decide()
    assert not nodes[0].listen()
    meet(nodes, 0)
    assert decide() is None
    assert nodes[0].listen()
    assert [node["host"] for node in (nodes[0].announced("world") or {})["nodes"]] == ["node-0", "node-1", "node-2"]


def test_the_first_failure_counts_and_all_are_noted_in_order(
    decide: Callable[[], Stop | None], nodes: list[DirectoryNode], run: RunDir
) -> None:
    meet(nodes, 0, 1, 2)
    decide()
    nodes[2].publish("failed", {"kind": "exit", "process": "rank-2", "event": "forged", "attempt": 9})
    nodes[0].publish("failed", {"kind": "exit", "process": "rank-0"})
    stop = decide()
    assert stop is not None
    assert (stop.cause, stop.reason) == ("failure", "rank-2 failed")
    found = [(event["node"], event["attempt"]) for event in read_events(run.events) if event["event"] == "failure"]
    assert found == [(2, 1), (0, 1)]


@pytest.mark.parametrize("wrong", [{}, {"kind": 3}, {"kind": "exit", "process": {}}, {"kind": "exit", "process": ["rank-1"]}])
def test_a_failure_that_cannot_be_read_is_one_all_the_same(
    wrong: dict[str, Any], decide: Callable[[], Stop | None], nodes: list[DirectoryNode], attempt: AttemptDir, run: RunDir
) -> None:
    meet(nodes, 0, 1, 2)
    decide()
    nodes[1].publish("failed", wrong)
    stop = decide()
    assert stop is not None
    assert (stop.cause, stop.reason) == ("failure", "a node failed")
    noted = [event for event in read_events(run.events) if event["event"] == "failure"]
    assert [(event["node"], event["message"]) for event in noted] == [(1, "node 1 published a failure that cannot be read")]


@pytest.mark.parametrize(("cause", "counts"), [("time_limit", True), ("lost", True), ("finished", False)])
def test_a_node_requests_a_stop_and_the_supervisor_decides(
    cause: str, counts: bool, decide: Callable[[], Stop | None], nodes: list[DirectoryNode]
) -> None:
    nodes[1].publish("stop-request", Stop(Cause(cause), "because", 1e9).to_json())
    nodes[2].publish("stop-request", Stop(Cause.LOST, "too late", 0.0).to_json())
    stop = decide()
    assert stop is not None
    assert stop.reason == ("because" if counts else "too late")
    assert stop.grace <= Job(name="job").grace


# -- what nodes write


@pytest.mark.long
@needs_ssh
def test_a_node_writes_what_is_declared_and_nothing_else(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    fields = {"nodes": 2, "framework": "mpi", "bench": {}, "setup": "true", "sample": "100ms", "memory": "4GB"}
    view = run_json(write_job({**fields, "command": "sleep 1"}))
    for node in Path(view["dir"]).glob("attempts/1/nodes/*"):
        found = {path.name: path for path in node.iterdir()}
        assert {name for name, path in found.items() if path.is_dir()} <= NODE_FOLDERS
        assert {name for name, path in found.items() if not path.is_dir()} <= NODE_FILES.keys()
        assert all(path.stat().st_size <= NODE_FILES[name] for name, path in found.items() if not path.is_dir())
