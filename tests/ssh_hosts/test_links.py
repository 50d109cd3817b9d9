"""What the link of a node says to a host that it meets again, by what that has of the attempt."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.channel.stream.frames import Parser
from muster.engines.ssh.node.addresses import here
from muster.engines.ssh.node.connection import Host
from muster.engines.ssh.node.handover import Handover
from muster.engines.ssh.node.link import Link
from muster.records.layout import RunDir


@pytest.fixture
def taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    """The link of a supervisor that goes on with an attempt of another one."""
    run = RunDir(str(tmp_path / "runs/job-1"))
    os.makedirs(run.attempt(1).path)
    given = Handover(run, 0, Host("h1"), "", {}, b"", -1, {}, [], 60.0, attempt=1)
    near, far = socket.socketpair()
    with closing(near), closing(far):
        link = Link(given, near, (-1, -1))
        monkeypatch.setattr(link, "_connection", object())
        monkeypatch.setattr(link, "_out", bytearray(), raising=False)
        yield link
        assert link._channel is not None
        link._channel.close()


@pytest.mark.parametrize(
    ("given", "attempt", "said"),
    [(True, 1, ["have"]), (False, 0, ["deliver"]), (True, 0, ["deliver"])],  # the last was never told to start
)
def test_a_host_is_asked_for_what_it_has_of_an_attempt(given: bool, attempt: int, said: list[str], taken_over: Link) -> None:
    taken_over._meet({"place": here().to_json(), "given": given, "attempt": attempt})
    words = [frame.object["say"] for frame in Parser().feed(bytes(taken_over._out))]
    assert words == ["clock", "begin", *said]
