"""A supervisor follows the nodes of any site by their events: no process of its own has to stand for a node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from muster.job import Job

PROGRAM = """\
import os, sys
from muster.agent.supervisor.site import Assignment, NodeEnded, Site
from muster.agent.supervisor import arbiter, supervisor
from muster.records.files import Events, write_json, write_once


class Remote(Site):
    '''Two nodes elsewhere, known by a connection: the first breaks off, the second ends when it is killed.'''

    def __init__(self, run):
        self.run = run
        self.reader, self.writer = os.pipe()
        self.events = []

    def start(self, attempt):
        self.attempt = attempt
        self._tell(NodeEnded(0, "lost its connection"))

    def filenos(self):
        return [self.reader]

    def ended(self, attempt, channel):
        if self.events:
            os.read(self.reader, 1)
            write_once(self.run.kill, {"reason": "enough"})
        events, self.events = self.events, []
        return events

    def kill(self, nodes):
        print("killed", list(nodes))
        os.makedirs(self.attempt.node(1).path)
        write_json(self.attempt.node(1).exit, {"node": 1, "processes": []})
        self._tell(NodeEnded(1))

    def _tell(self, event):
        self.events.append(event)
        os.write(self.writer, b"!")


assignment = Assignment.read(sys.argv[1], {"--code": "/", "--python": sys.executable})
arbiter.KILL_LIMIT = 0.0
sys.exit(supervisor.Supervisor(assignment, Remote(assignment.run), Events(assignment.run.events)).carry_out())
"""


def test_nodes_that_are_no_child_processes_are_lost_and_killed_like_others(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(Job(name="job", command="true", device="cpu", nodes=2).to_json()))
    (tmp_path / "run.json").write_text(json.dumps({"engine": "remote", "user": "me", "created": 1.0, "handle": "1"}))
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "killed [1]\n")
    events: list[dict[str, Any]] = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["node"] for event in events if event["event"] == "lost"] == [0]
    final = json.loads((tmp_path / "final.json").read_text())
    assert (final["state"], final["reason"]) == ("failed", "the agent of node 0 lost its connection")
