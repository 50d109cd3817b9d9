"""Files of the submitter's machine that a job names: hosts reach them through the run's connection, and nothing else there."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from muster.dataclass import replace
from muster.job import Job
from muster.job.data import Data, local_path
from muster.linux import syscalls
from muster.storage.served import process
from muster.storage.served.objects import Root
from muster.storage.urls import SUBMITTER


def for_hosts(job: Job) -> Job:
    """The job as its hosts get it: paths of this machine are URLs that lead here."""
    inputs = {name: _travelling(data) for name, data in job.inputs.items()}
    outputs = {name: _travelling(data) for name, data in job.outputs.items()}
    return replace(job, inputs=inputs, outputs=outputs, log_url=_url(job.log_url))


def roots(job: Job) -> list[Root]:
    """What hosts may read, and what they may write to."""
    written = [*(data.url for data in job.outputs.values()), job.log_url]
    found = [Root(path, True) for path in map(local_path, written) if path]
    return found + [Root(path, False) for data in job.inputs.values() if (path := local_path(data.url))]


def _travelling(data: Data) -> Data:
    return replace(data, url=_url(data.url))


def _url(url: str) -> str:
    path = local_path(url)
    return f"{SUBMITTER}://{path}" if path else url


class StoreServer:
    """The server of one host's requests, started by the first of them, and again if it was killed."""

    def __init__(self, home: str, roots: Sequence[Root], node: int) -> None:
        self._home = home
        self._roots = roots
        self._node = node
        self._name = ""

    def connect(self) -> socket.socket:
        """A connection to the server. Raises OSError."""
        if self._name:
            try:
                return _connected(self._name)
            except ConnectionError:
                pass
        self._name, _ = process.start(self._home, self._roots, self._begin)
        return _connected(self._name)

    def _begin(self) -> None:
        syscalls.die_with_parent()
        syscalls.set_name(f"muster-store-{self._node}")


def _connected(name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.connect(f"\0{name}")
    except OSError:
        connection.close()
        raise
    return connection
