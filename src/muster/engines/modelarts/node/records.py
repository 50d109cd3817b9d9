"""What the supervisor writes for the nodes of a job: what the service says of them, and nothing else."""

from __future__ import annotations

import os
import time
from typing import Any

from muster.channel.directory import DirectoryNode
from muster.dataclass import dataclass
from muster.engines.modelarts.node.shown import FAILED, SUCCEEDED, Shown, TaskEnd
from muster.job import Job
from muster.records.files import Events, read_mapping, read_object, write_json
from muster.records.layout import NODE_TOPICS, AttemptDir
from muster.records.run_view import Stop


@dataclass(frozen=True)
class NodeRecords:
    """The records of the nodes of an attempt."""

    attempt: AttemptDir
    job: Job
    brought: bool = False  # whether Muster's agent writes them in the job, and only what it did not is written here

    def _programs(self, node: int) -> list[tuple[str, int]]:
        return [(name, rank) for name, rank, index in self.job.programs if index == node]

    def _publish(self, node: int, topic: str, data: dict[str, Any]) -> None:
        channel = DirectoryNode(self.attempt, node)
        try:
            channel.publish(topic, data)
        finally:
            channel.close()

    def show(self, node: int, topic: str) -> None:
        """Lets the supervisor see a topic that the record has brought."""
        if not os.path.lexists(f"{self.attempt.meet}/{topic}.{node}"):
            channel = DirectoryNode(self.attempt, node)
            try:
                channel.show(topic)
            finally:
                channel.close()

    def has(self, node: int, topic: str) -> bool:
        """True if a topic of a node is here, and can be read."""
        return read_mapping(self.attempt.node(node).topic(topic), NODE_TOPICS[topic]) is not None

    def prepare(self) -> None:
        for node in range(self.job.nodes):
            folder = self.attempt.node(node)
            for path in (folder.logs, folder.results):
                os.makedirs(path, exist_ok=True)

    def is_up(self) -> bool:
        return all(os.path.exists(self.attempt.node(node).topic("up")) for node in range(self.job.nodes))

    def up(self, shown: Shown, hosts: dict[int, dict[str, str]]) -> None:
        """The job runs: where, as far as the service says it. It says nothing of devices and process ids."""
        started = shown.started or time.time()
        for node in range(self.job.nodes):
            known = hosts.get(node, {})
            where = {"host": known.get("host") or f"worker-{node}", "address": known.get("address") or None}
            device = None if self.job.device == "auto" else self.job.device  # as the job says it
            facts: dict[str, Any] = {"node": node, **where, "device": device, "devices": [], "agent": None}
            write_json(self.attempt.node(node).facts, facts)
            events = Events(self.attempt.node(node).events)
            for name, rank in self._programs(node):
                events.add("start", process=name, rank=rank, pid=None, time=started)
            events.close()
            self._publish(node, "up", {"processes": len(self._programs(node))})

    def done(self) -> None:
        for node in range(self.job.nodes):
            self._publish(node, "done", {})

    def failed(self, shown: Shown, last: str = "") -> None:
        """Publishes the failure of the task that the service names first, or of the job as a whole.

        `last` is the end of the service's log where Muster's agent should have run.
        """
        node, end = first_failure(shown)
        name, rank = (self._programs(node) or [("", -1)])[0]
        if last:
            failure = {"kind": "plan", "process": "", "rank": -1, "message": f"the job failed in ModelArts: {last}"}
        elif end.code:
            failure = {"kind": "exit", "process": name, "rank": rank, "code": end.code, "message": end.message}
        else:
            said = f"the job failed in ModelArts: {shown.words}; the service gives no exit code"
            failure = {"kind": "plan", "process": name, "rank": rank, "message": said}
        self._publish(node, "failed", {**failure, "node": node})

    def request_stop(self, stop: Stop) -> None:
        self._publish(0, "stop-request", stop.to_json())

    def end(self, shown: Shown, stop: Stop, unsaved: str) -> None:
        """How the ranks of all nodes ended. A task has one exit code, which is that of its first rank where it failed."""
        ended = shown.ended or time.time()
        for node in range(self.job.nodes):
            if brought := read_object(self.attempt.node(node).exit) if self.brought else {}:
                if unsaved and node == 0:
                    write_json(self.attempt.node(node).exit, {**brought, "unsaved": unsaved})
                continue
            end = shown.ends.get(f"worker-{node}", TaskEnd())
            processes = []
            for number, (name, rank) in enumerate(self._programs(node)):
                code = 0 if shown.state == SUCCEEDED else end.code if number == 0 else None
                failed = shown.state == FAILED and number == 0 and bool(end.code)
                known = {"process": name, "rank": rank, "pid": None, "started": shown.started, "ended": ended}
                processes.append({**known, "code": code, "signal": None, "stopped": shown.state != SUCCEEDED and not failed})
            write_json(
                self.attempt.node(node).exit,
                {
                    "node": node,
                    "cause": stop.cause.value,
                    "ended": ended,
                    "unsaved": unsaved if node == 0 else "",
                    "worlds": [],
                    "processes": processes,
                },
            )


def first_failure(shown: Shown) -> tuple[int, TaskEnd]:
    """The node and the end of the first task that failed; node 0 where the service does not say which."""
    failed = []
    for task, end in shown.ends.items():
        name, _, number = task.rpartition("-")
        if end.code and name == "worker" and number.isascii() and number.isdigit():
            failed.append((not end.message, int(number), end))  # the one with a message is the cause
    failed.sort(key=lambda one: one[:2])
    return (failed[0][1], failed[0][2]) if failed else (0, TaskEnd())


def process_of(job: Job, node: int) -> str:
    """The process under whose name the log of a node is kept: its first rank."""
    own = [name for name, _, index in job.programs if index == node]
    return own[0] if own else f"worker-{node}"
