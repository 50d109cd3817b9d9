"""Reaching ports of a host: the system's ssh, at whose other end a carrier connects to programs of the run's user."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from muster.channel.stream.carrier import HELLO
from muster.engines.base import EngineError, Place
from muster.engines.carriers import OPENING
from muster.engines.ssh.node import bootstrap
from muster.engines.ssh.node.connection import Connection, Host, Unreachable
from muster.engines.ssh.options import HostsOptions


def carrier(place: Place) -> Connection:
    """Starts a carrier on the host of a node. Raises EngineError."""
    hosts: HostsOptions = place.job.hosts
    spec = hosts.nodes[place.node]
    host = Host.parse(spec)
    assert host is not None  # checked when the job was submitted
    agent = Path(place.agent()).read_bytes()
    digest = hashlib.sha256(agent).hexdigest()
    text = bootstrap.command(hosts.directory, digest, hosts.python, "connect", place.run_id, place.node)
    try:
        connection = Connection(host, text, os.environ)
    except Unreachable as error:
        raise EngineError(f"{spec}: {error}") from None
    try:
        end = time.monotonic() + OPENING
        connection.open(agent, OPENING)
        while HELLO not in connection.early:
            if not (piece := connection.receive(1 << 16, end)):
                raise connection.why_closed(connection.early)
            connection.early += piece
        connection.early = connection.early.partition(HELLO)[2]
    except Unreachable as error:
        connection.close()
        raise EngineError(f"{spec}: {error}") from None
    return connection
