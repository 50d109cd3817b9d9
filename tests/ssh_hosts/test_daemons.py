"""The daemon of a node on its host, spoken to as a supervisor that took its run over would."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import WriteJob, processes_with, until
from muster.channel.stream import frames
from muster.channel.stream.frames import Parser
from muster.engines.ssh.node.host.paths import SOCKET
from muster.records.run_view import Cause, Stop

TRAIN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\nsignal.pause()\n"


class Supervisor:
    """The other side of a daemon, which takes all that it sends."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._parser = Parser()
        self._taken = 0

    def say(self, word: str, **data: Any) -> None:
        self._line.sendall(frames.message(word, **data))

    def until_said(self, word: str, **wanted: object) -> dict[str, Any]:
        """Waits for a message; acknowledges files and answers pings meanwhile."""
        while data := self._line.recv(1 << 16):
            for frame in self._parser.feed(data):
                if frame.kind == frames.DATA:
                    self._taken += len(frame.piece)
                    self._line.sendall(frames.with_number(frames.RECEIVED, self._taken))
                elif frame.kind == frames.MESSAGE:
                    said = frame.object
                    if said["say"] == "ping":
                        self.say("pong", sent=said["sent"])
                    if said["say"] == word and wanted.items() <= said.items():
                        return said
        raise AssertionError(f"the daemon is gone, and has not said `{word}`")


@contextmanager
def taken_over(live: Live) -> Iterator[Supervisor]:
    """Takes the first node of a run over from its supervisor, which is killed."""
    os.kill(live.supervisor, signal.SIGKILL)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(30)
        line.connect("\0" + SOCKET.format(os.getuid(), live.run.id, 0))
        found = Supervisor(line)
        found.until_said("hello", attempt=1, running=True)
        found.say("begin", lost_after=60)
        found.until_said("ready")
        yield found


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
def test_another_attempt_ends_the_ranks_of_the_one_before_and_keeps_what_it_left(
    command: list[str], write_job: WriteJob, home: Path
) -> None:
    """As of a host that stood still until the supervisor had given it up."""
    with Live(command, write_job({"grace": "10m"}, **{"train.py": TRAIN}), "--detach") as live:
        live.until_running()
        before = live.rank(0)
        place = home.parent / f"hosts/nodes/0/runs/{live.run.id}"
        with taken_over(live) as supervisor:
            supervisor.say("start", attempt=2, nodes=[["h1", "127.0.0.1"]], left=None, count=1)
            supervisor.until_said("attempt", attempt=2)
            assert str(before) not in os.listdir("/proc"), "a rank of the first attempt is beside the second"
            supervisor.say("have", attempt=2, files={})
            supervisor.say("announce", attempt=2, topic="stop", data=Stop(Cause.STOP).to_json())
            supervisor.until_said("ended", attempt=2)
            assert json.loads((place / "attempts/2/nodes/0/exit.json").read_text())
            supervisor.say("over", keep=False)
        until(lambda: not processes_with(f"MUSTER_RUN={live.run.id}"))
        assert (place / "attempts/1/nodes/0/logs/rank-0.log").read_text() == "up\n", "nobody has fetched it"
