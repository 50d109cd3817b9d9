"""The state of a run is derived from its files and the engine's answer, by everybody the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from muster.job import Job
from muster.metrics.final import conclude, final
from muster.records.derive import derive, view
from muster.records.layout import RunDir
from muster.records.ranks import nodes, ranks
from muster.records.run_view import RunView, is_final
from muster.records.state import read
from muster.records.status import Status

ALIVE, GONE = Status(True), Status(False, "its supervisor was killed")


class Written:
    """A run directory written by hand, as agents and supervisor would write it."""

    def __init__(self, path: Path, **fields: Any) -> None:
        self.job = Job(**{"name": "job", "command": "true", "nodes": 2, "devices": 2, "framework": "pytorch", **fields})
        path.mkdir()
        self.run = RunDir(str(path))
        self.put(self.run.job, self.job.to_json())
        self.put(self.run.run, {"engine": "local", "user": "me", "created": 100.0, "handle": "1:2:3"})

    def put(self, path: str, data: Any) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(json.dumps(data))

    def event(self, event: str, **details: Any) -> None:
        with open(self.run.events, "a") as file:
            file.write(json.dumps({"time": 101.0, "event": event, **details}) + "\n")

    def attempt(self, number: int = 1) -> None:
        os.makedirs(self.run.attempt(number).meet)
        self.event("attempt", attempt=number)

    def meet(self, *topics: str) -> None:
        for topic in topics:
            name, _, node = topic.partition(".")
            self.put(self.run.attempt(1).node(int(node)).topic(name) if node else self.run.attempt(1).world, {})

    def stop(self, cause: str, reason: str = "") -> None:
        self.put(self.run.attempt(1).stop, {"cause": cause, "reason": reason, "grace": 1})

    def node_event(self, writer: int, event: str, /, **details: Any) -> None:
        path = self.run.attempt(1).node(writer).events
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a") as file:
            file.write(json.dumps({"time": 102.0, "event": event, **details}) + "\n")

    def failure(self, rank: int, **details: Any) -> dict[str, Any]:
        known = {"kind": "exit", "code": 1, "signal": None, "oom": False}
        return {**known, "process": f"rank-{rank}", "rank": rank, "node": rank // 2, **details}

    def learned(self, rank: int, **details: Any) -> None:
        self.node_event(0, "failure", **self.failure(rank, **details))

    def log(self, rank: int, text: str) -> None:
        path = self.run.attempt(1).node(rank // 2).log(f"rank-{rank}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(text)

    def derived(self, status: Status | None = ALIVE) -> tuple[str, str, str]:
        found = derive(read(self.run), status)
        return found.state, found.phase, found.reason

    def ended(self, status: Status | None = None) -> dict[str, Any]:
        return final(read(self.run), status).to_json()


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "job-20260101-000000-abcd")


def test_a_run_goes_from_pending_to_running_as_its_files_appear(written: Written) -> None:
    assert written.derived() == ("pending", "queued", "")
    written.event("waiting", reason="waiting for devices: run other of me holds nvidia 0")
    assert written.derived() == ("pending", "queued", "waiting for devices: run other of me holds nvidia 0")
    written.attempt()
    assert written.derived() == ("starting", "rendezvous", "0 of 2 nodes are up")
    written.meet("facts.0", "facts.1", "world")
    assert written.derived() == ("starting", "staging", "0 of 2 nodes are up")
    written.meet("up.0")
    assert written.derived() == ("starting", "staging", "1 of 2 nodes are up")
    written.meet("up.1")
    assert written.derived() == ("running", "running", "")
    assert derive(read(written.run), ALIVE).up == 2
    assert written.derived(Status(True, "Slurm has suspended it")) == ("running", "running", "Slurm has suspended it")


def test_parameter_servers_count_as_nodes(tmp_path: Path) -> None:
    written = Written(tmp_path / "run", framework="tensorflow", ps=1)
    written.attempt()
    written.meet("world", "up.0", "up.1")
    assert written.derived() == ("starting", "staging", "2 of 3 nodes are up")


def test_a_run_that_is_told_to_stop_is_stopping_with_the_reason(written: Written) -> None:
    written.attempt()
    written.meet("world", "up.0", "up.1")
    written.put(written.run.stop, {"reason": "stopped by the user"})
    assert written.derived() == ("stopping", "stopping", "stopped by the user")
    written.stop("time_limit", "it took too long")
    assert written.derived() == ("stopping", "stopping", "it took too long")


def test_a_gang_that_stops_after_a_failure_is_stopping_and_one_that_is_done_is_not(written: Written) -> None:
    written.attempt()
    written.meet("world", "up.0", "up.1")
    written.stop("finished", "all ranks are done")
    assert written.derived()[0] == "running"
    written.stop("failure", "rank-1 failed")
    assert written.derived() == ("stopping", "stopping", "rank-1 failed")


def test_between_two_attempts_a_run_is_retrying(written: Written) -> None:
    written.attempt()
    written.stop("failure")
    written.learned(3)
    written.event("attempt-ended", attempt=1)
    assert written.derived() == ("starting", "retrying", "attempt 1: rank 3 on node 1 exited with code 1")
    written.attempt(2)
    assert written.derived() == ("starting", "rendezvous", "0 of 2 nodes are up")


def test_an_attempt_that_begins_is_no_attempt_after_which_the_run_was_requeued(written: Written) -> None:
    queued = Status(True, "waiting", "pending", 200.0)
    written.attempt()
    written.event("attempt-ended", attempt=1, reason="node2 is down")
    assert written.derived(queued) == ("pending", "queued", "requeued after attempt 1 (node2 is down); waiting")
    os.makedirs(written.run.attempt(2).meet)  # before a word of it is written
    assert written.derived(queued) == ("starting", "rendezvous", "0 of 2 nodes are up")


def test_without_its_supervisor_a_run_is_lost_whatever_else_is_written(written: Written) -> None:
    assert written.derived(GONE) == ("lost", "ended", "its supervisor was killed")
    written.attempt()
    written.meet("world", "up.0", "up.1")
    assert written.derived(GONE) == ("lost", "ended", "its supervisor was killed")
    assert written.derived(None)[0] == "running"


def test_a_supervisor_that_failed_tells_why(written: Written) -> None:
    written.attempt()
    Path(written.run.log).write_text("Traceback (most recent call last):\n  ...\nOSError: no ports\n")
    assert written.ended(GONE)["reason"] == "its supervisor failed: OSError: no ports"


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        ("finished", "succeeded"),
        ("stop", "stopped"),
        ("abandoned", "stopped"),
        ("terminated", "stopped"),
        ("time_limit", "failed"),
        ("silent", "failed"),
        ("lost", "failed"),
        ("rendezvous", "failed"),
    ],
)
def test_the_end_follows_from_why_the_gang_was_stopped(written: Written, cause: str, state: str) -> None:
    written.attempt()
    written.stop(cause, "the words of the one who stopped it")
    written.event("attempt-ended", attempt=1)
    written.event("ended")
    found = written.ended()
    assert (found["state"], found["phase"], found["attempts"][0]["cause"]) == (state, "ended", cause)
    assert found["reason"] == ("all 4 ranks succeeded" if cause == "finished" else "the words of the one who stopped it")


def failed(written: Written) -> dict[str, Any]:
    written.stop("failure")
    written.event("attempt-ended", attempt=1)
    written.event("ended")
    return written.ended()


def test_the_first_failure_is_the_one_that_node_0_learned_of_first(written: Written) -> None:
    written.attempt()
    written.learned(3, code=9)
    written.learned(0, code=1)
    written.learned(2, code=9)
    found = failed(written)
    assert found["reason"] == "rank 3 on node 1 exited with code 9"
    assert found["failure"]["others"] == ["rank 0 on node 0 exited with code 1"]


def test_when_node_0_is_lost_the_others_words_count(written: Written) -> None:
    written.attempt()
    attempt = written.run.attempt(1)
    written.put(f"{attempt.node(1).path}/failed.json", written.failure(2, kind="signal", code=None, signal=11))
    assert failed(written)["reason"] == "rank 2 on node 1 was killed (SIGSEGV)"


@pytest.mark.parametrize("node", [{}, {"node": 7}, {"node": None}])
def test_a_node_speaks_for_itself_whatever_it_publishes(written: Written, node: dict[str, Any]) -> None:
    written.attempt()
    attempt = written.run.attempt(1)
    written.put(f"{attempt.node(1).path}/failed.json", {"kind": "exit", "process": "rank-2", "rank": 2, "code": 3, **node})
    Path(attempt.meet, "failed.1").symlink_to("../nodes/1/failed.json")
    assert failed(written)["reason"] == "rank 2 on node 1 exited with code 3"


def test_a_failure_that_only_a_node_itself_wrote_down_is_another_cause(written: Written) -> None:
    written.attempt()
    written.learned(0, code=1)
    process = {"process": "rank-3", "rank": 3, "pid": 1, "started": 1.0, "ended": 2.0, "code": None, "signal": 6}
    quiet = {**process, "process": "rank-2", "rank": 2, "code": 143, "signal": None, "stopped": True}
    node = written.run.attempt(1).node(1)
    written.put(node.exit, {"node": 1, "cause": "failure", "ended": 2.0, "processes": [{**process, "stopped": False}, quiet]})
    found = failed(written)
    assert found["reason"] == "rank 0 on node 0 exited with code 1"
    assert found["failure"]["others"] == ["rank 3 on node 1 was killed (SIGABRT)"]


def test_causes_are_distinct_by_how_they_ended_and_by_their_exceptions(written: Written) -> None:
    written.attempt()
    for rank, error in enumerate(["ValueError: a", "ValueError: a", "ValueError: b", ""]):
        written.log(rank, f"Traceback (most recent call last):\n  File x\n{error}\n" if error else "gone\n")
        written.learned(rank)
    found = failed(written)
    assert found["reason"] == "rank 0 on node 0 exited with code 1: ValueError: a"
    assert found["failure"]["others"] == [
        "rank 2 on node 1 exited with code 1: ValueError: b",
        "rank 3 on node 1 exited with code 1",
    ]


def test_memory_and_plans_have_words_of_their_own(written: Written) -> None:
    written.attempt()
    written.node_event(0, "failure", kind="memory", node=1, used=3 << 30, limit=2 << 30)
    written.node_event(0, "failure", kind="plan", node=0, message="no such world")
    found = failed(written)
    assert found["reason"] == "the processes of node 1 used 3.0G together, more than the job's `memory: 2.0G`"
    assert (found["failure"]["others"], found["failure"]["tail"]) == (["no such world"], [])
    assert found["attempts"][0]["cause"] == "oom"


def test_the_final_record_is_written_once_and_is_what_everybody_sees(written: Written) -> None:
    written.attempt()
    first = conclude(written.run, GONE)
    assert first.state == "lost"
    written.stop("finished")
    written.event("ended")
    assert conclude(written.run) == first
    assert view(written.run, ALIVE) == first


def test_a_record_that_cannot_be_written_is_still_told(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    assert conclude(written.run, GONE).state == "lost"
    assert not os.path.exists(written.run.final)
    assert [name for name in os.listdir(written.run.path) if name.endswith(".tmp")] == []


def test_half_written_files_are_not_there_yet(written: Written) -> None:
    written.attempt()
    with open(written.run.events, "a") as file:
        file.write('{"time": 1, "event": "ended", "sta')
    Path(written.run.stop).write_text('{"reason": "stop')
    assert written.derived()[0] == "starting"


def test_an_empty_run_directory_is_a_pending_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    found = view(RunDir(str(tmp_path / "run")))
    assert (found.state, found.attempt, found.created) == ("pending", 0, None)


def test_ranks_have_the_states_that_their_agents_wrote(written: Written) -> None:
    written.attempt()
    attempt = written.run.attempt(1)
    for rank in (0, 1):
        written.node_event(0, "start", process=f"rank-{rank}", rank=rank, pid=100 + rank)
    written.node_event(0, "exit", process="rank-1", rank=1, code=0, signal=None)
    found = ranks(attempt, written.job, False)
    assert [rank.state for rank in found] == ["running", "succeeded", "pending", "pending"]
    assert [rank.pid for rank in found] == [100, 101, None, None]
    assert ranks(attempt, written.job, True)[0].state == "lost"
    entry = {"pid": 7, "started": 1.0, "ended": 2.0, "code": 0, "signal": None, "stopped": False}
    processes = [
        {**entry, "process": "rank-2", "rank": 2, "code": 3},
        {**entry, "process": "rank-3", "rank": 3, "signal": 15, "code": None, "stopped": True},
        {**entry, "process": "scheduler", "rank": -1},
        {**entry, "process": "setup", "rank": -1},
    ]
    written.put(attempt.node(1).exit, {"node": 1, "cause": "failure", "ended": 2.0, "processes": processes})
    assert [(rank.process, rank.rank, rank.state) for rank in ranks(attempt, written.job, True)][2:] == [
        ("rank-2", 2, "failed"),
        ("rank-3", 3, "stopped"),
        ("scheduler", None, "succeeded"),
    ]


def test_nodes_are_missing_then_up_then_ended(written: Written) -> None:
    written.attempt()
    attempt = written.run.attempt(1)
    facts = {"host": "node-1", "address": "127.1.2.3", "device": "cpu", "devices": [{"id": "0", "ip": ""}], "agent": 77}
    written.put(attempt.node(1).facts, facts)
    assert [(node.state, node.host, node.agent) for node in nodes(attempt, written.job)] == [
        ("missing", None, None),
        ("up", "node-1", 77),
    ]
    written.put(attempt.node(1).exit, {"node": 1, "cause": "stop", "ended": 5.0, "processes": []})
    assert [(node.state, node.ended) for node in nodes(attempt, written.job)][1] == ("ended", 5.0)


def test_a_final_record_is_read_as_it_was_written(written: Written) -> None:
    written.attempt()
    written.log(3, "Traceback (most recent call last):\n  File x\nValueError: a\n")
    written.learned(3)
    found = failed(written)
    assert found["failure"]["exception"] == "ValueError: a"
    again = RunView.from_json(found).to_json()
    assert json.dumps(again) == json.dumps(found)


def test_a_record_of_an_older_version_has_no_warnings(written: Written) -> None:
    found = written.ended(GONE)
    assert found.pop("warnings") == []
    assert RunView.from_json(found).warnings == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("state", "running"), ("state", []), ("reason", 3), ("dir", None), ("framework", 3), ("created", "x")],
        *[("ended", 1e300), ("ranks", 1.5), ("nodes", -1), ("up", None), ("warnings", [3]), ("attempts", {})],
        *[("attempts", [{"attempt": 1}]), ("failure", {"tail": [], "others": []}), ("result", {"throughput": 3})],
        ("result", {"throughput": {"value": float("nan"), "unit": "1", "reason": None}}),
    ],
)
def test_what_muster_never_writes_is_no_final_record(written: Written, key: str, value: Any) -> None:
    found = written.ended(GONE)
    assert is_final(found)
    assert not is_final({**found, key: value})
