"""Transfers between a node and stores: a server that ranks use over a local socket, inputs before the start, outputs after it.

All of it is done by helper processes (`helpers.py`): the agent stays quick, and has no key that a rank could find.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Callable, Optional

from muster.agent.helpers.helpers import Helpers
from muster.agent.node import environment
from muster.agent.node.loop import Loop
from muster.agent.node.processes import Running
from muster.plan import NodePlan, Transfer
from muster.records.files import open_anew
from muster.records.layout import NodeDir
from muster.records.logs import last_lines
from muster.records.text.units import duration, signal_name
from muster.records.untrusted import NotRegular, open_regular

FAREWELL = 120.0  # seconds for the last upload of a run that others wait for
PERIOD = 30.0  # seconds between two uploads of what a program writes
BACKLOG = 1024

Serve = Callable[[str, list[str]], Optional[Running]]


def period(variables: Mapping[str, str]) -> float:
    """The seconds between two uploads; a variable of whoever starts runs may say another number."""
    text = variables.get("MUSTER_UPLOAD_EVERY", "")
    return float(text) if text.isascii() and text.isdigit() and text != "0" else PERIOD


class StorageSocket:
    """The socket at which ranks ask for storage; a server is started by the first connection."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        name = "muster-" + os.urandom(12).hex()
        self._socket.bind("\0" + name)  # no place on a disk: paths are limited to 108 bytes
        self._socket.listen(BACKLOG)
        self.variables = {"MUSTER_SOCKET": "@" + name}

    def fileno(self) -> int:
        return self._socket.fileno()


def fetch(plan: NodePlan) -> list[str]:
    """The words of the helper that brings the inputs of a node, or nothing where all of them are at hand."""
    words = [word for entry in plan.inputs if not entry.local for word in (entry.url, entry.path)]
    return ["storage", "copy", *words] if words else []


def save(outputs: Sequence[Transfer]) -> list[str]:
    """The words of the helper that takes outputs to their URLs."""
    return ["storage", "copy", *[word for entry in outputs for word in (entry.path, entry.url)]]


def why(folder: NodeDir, process: Running) -> str:
    """Why a process of the agent's failed: how it was killed, or else the last thing that it wrote."""
    if process.signal:
        return f"it was killed ({signal_name(process.signal)})"
    return (last_lines(folder.log(process.name), 1) or ["it left no word"])[0]


class Outputs:
    """Takes what the programs of a node write to its URLs: now and then, and completely at the end."""

    def __init__(self, folder: NodeDir, loop: Loop, helpers: Helpers, serve: Serve) -> None:
        self._folder = folder
        self._loop = loop
        self._helpers = helpers
        self._serve = serve
        self._last: Running | None = None

    def begin(self, plan: NodePlan) -> None:
        """From now on uploads what there is every so often, unless the last time is still going on."""

        def upload() -> None:
            if self._last is None or self._last.ended is not None:
                self._last = self._serve("outputs", save(plan.outputs))

        if plan.outputs:
            self._loop.every(period(environment.given()), upload)

    def save(self, plan: NodePlan, log_url: str, limit: float | None = None) -> str:
        """Uploads everything, once all processes have ended; returns why that failed, if so."""
        outputs = [entry for entry in plan.outputs if os.path.exists(entry.path)]  # it may have failed before it made them
        if plan.log:
            outputs.append(Transfer("log_url", log_url, gather_logs(self._folder, plan.log)))
        if not plan.outputs and not plan.log:
            return ""
        self._loop.channel.publish("uploading", {})
        process = self._serve("outputs", save(outputs))
        if process is None:
            return "the upload could not be started"
        in_time = self._loop.until(lambda: process.ended is not None or self._loop.killed, limit)
        self._helpers.kill_all()
        if not in_time:
            return f"it took longer than the {duration(limit or 0.0)} that a preempted run has for it"
        if process.code == 0:
            return ""
        return "it was stopped at once" if self._loop.killed else why(self._folder, process)


def gather_logs(folder: NodeDir, log: dict[str, tuple[str, ...]]) -> str:
    """Puts logs together as a platform names them; returns the directory that holds them."""
    target = folder.path + "/log"
    os.makedirs(target, exist_ok=True)
    for name, processes in log.items():
        with os.fdopen(open_anew(f"{target}/{name}"), "wb") as whole:
            for process in processes:
                _add(folder.log(process), whole.fileno())
    return target


def _add(path: str, writer: int) -> None:
    try:
        reader = open_regular(path)
    except FileNotFoundError:
        return  # it was never started
    except NotRegular as error:
        os.write(writer, (f"muster: {os.path.basename(path)} cannot be read: {error.strerror}\n").encode())
        return
    with reader:
        while os.sendfile(writer, reader.fileno(), None, 1 << 30):
            pass
