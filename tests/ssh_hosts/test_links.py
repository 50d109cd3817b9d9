"""Links and their site after a takeover, or a killed link: how long hosts have, and what they are asked for."""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from muster.agent.supervisor.site import Assignment
from muster.agent.tools import Tools
from muster.channel.stream.frames import Parser
from muster.engines.ssh.node import link as links
from muster.engines.ssh.node import site as sites
from muster.engines.ssh.node.addresses import here
from muster.engines.ssh.node.connection import Host, Unreachable
from muster.engines.ssh.node.handover import Handover
from muster.engines.ssh.node.link import Link
from muster.engines.ssh.node.site import Node, SshSite
from muster.engines.ssh.options import HostsOptions
from muster.job import Job
from muster.records.files import Events
from muster.records.layout import RunDir


@pytest.fixture
def taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    """The link of a supervisor that goes on with an attempt of another one."""
    run = RunDir(str(tmp_path / "runs/job-1"))
    os.makedirs(run.attempt(1).path)
    given = Handover(run, 0, Host("h1"), "", {}, b"", -1, {}, [], 60.0, attempt=1)
    near, far = socket.socketpair()
    reader, writer = os.pipe()
    os.write(writer, b".")
    with closing(near), closing(far), open(reader, "rb"), open(writer, "wb"):
        link = Link(given, near, (reader, writer))
        yield link
        assert link._channel is not None
        link._channel.close()


@pytest.mark.parametrize(
    ("given", "attempt", "said"),
    [(True, 1, ["have"]), (False, 0, ["deliver"]), (True, 0, ["deliver"])],  # the last was never told to start
)
def test_a_host_is_asked_for_what_it_has_of_an_attempt(
    given: bool, attempt: int, said: list[str], taken_over: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taken_over, "_connection", object())
    monkeypatch.setattr(taken_over, "_out", bytearray(), raising=False)
    taken_over._meet({"place": here().to_json(), "given": given, "attempt": attempt})
    words = [frame.object["say"] for frame in Parser().feed(bytes(taken_over._out))]
    assert words == ["clock", "begin", *said]


class Enough(Exception):
    """The link has tried again often enough."""


@pytest.mark.parametrize("lasting", [False, True])
def test_a_host_that_is_away_after_a_takeover_is_not_given_up_before_its_time(
    lasting: bool, taken_over: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranks may go on, as the earlier supervisor knew."""
    tries = []

    def connect(token: bytes) -> None:
        os.write(taken_over._tokens[1], token)
        tries.append(token)
        raise Enough if len(tries) > 2 * len(links.PAUSES) else Unreachable("it is away", lasting)

    def give_up(error: Unreachable) -> None:
        raise AssertionError(f"given up: {error}")

    monkeypatch.setattr(taken_over, "_connect", connect)
    monkeypatch.setattr(taken_over, "_give_up", give_up)
    monkeypatch.setattr(links, "PAUSES", (0.0,) * len(links.PAUSES))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with pytest.raises(Enough):
        taken_over.run()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshSite]:
    """A site of two hosts whose links say nothing, and that has noted the addresses of three: one host was replaced."""
    run = RunDir(str(tmp_path / "runs/job-1"))
    os.makedirs(run.path)
    job = Job(nodes=2, grace=0.0, hosts=HostsOptions(nodes=("h1", "h3"), directory="~/.muster", lost_after=0.3))
    with closing(Events(run.events)) as events:
        for node, host, address in ((0, "h1", "10.0.0.1"), (1, "h2", "10.0.0.2"), (1, "h3", "10.0.0.3")):
            events.add("host", node=node, host=host, address=address)
        made = SshSite(Assignment(run, job, "", Tools(sys.executable, ""), True), events)
        pairs = [socket.socketpair() for _ in job.hosts.nodes]

        def connect(attempt: int = 0) -> None:
            for index, (near, _) in enumerate(pairs):
                made._nodes.append(Node(index, job.hosts.nodes[index], f"h{index}", 0, near))

        monkeypatch.setattr(made, "_connect", connect)
        monkeypatch.setattr(sites, "MARGIN", 0.0)
        yield made
        for end in (end for pair in pairs for end in pair):
            with suppress(OSError):
                end.close()


def test_a_takeover_knows_the_addresses_that_another_attempt_needs(site: SshSite) -> None:
    site.resume(site.assignment.run.attempt(1))
    assert [node.address for node in site._nodes] == ["10.0.0.1", "10.0.0.3"]


def test_a_host_behind_a_killed_link_has_its_time_before_the_next_attempt(site: SshSite) -> None:
    """Its daemon waits for another link for as long, and its ranks go on."""
    begun = time.monotonic()
    site.resume(site.assignment.run.attempt(1))
    site._gone(site._nodes[1])
    site.sweep(site.assignment.run.attempt(1))
    assert time.monotonic() >= begun + 0.3
    assert site._nodes[1].lost
