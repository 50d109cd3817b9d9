"""Helper programs that are given keys: how an agent starts them and learns of their end.

Where the node is a namespace they run outside of it: ranks may be root there, and could read their memory and that of the
agent. The agent has no key and asks the keeper (`keeper.py`). Without namespaces the agent starts them itself.
"""

from __future__ import annotations

import itertools
import json
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from muster.agent.node import environment
from muster.agent.node.processes import Processes, Running
from muster.agent.tools import Tools
from muster.linux import keys
from muster.linux.held_signals import held
from muster.records.layout import NodeDir

MOST = 1 << 18  # bytes of a message


class Helpers:
    def start(self, name: str, words: Sequence[str], keep: Sequence[int] = ()) -> Running:
        """Starts one of Muster's own programs; the numbers of the descriptors that it keeps are its last words."""
        raise NotImplementedError

    def fileno(self) -> int:
        """Readable when one may have ended; -1 where their ends are those of any process of the node."""
        return -1

    def ended(self, stopping: bool) -> list[Running]:
        """Those that ended since the last call."""
        return []

    def kill_all(self) -> list[Running]:
        """Kills them; returns those that ended."""
        raise NotImplementedError

    def seen(self, agent: int) -> dict[int, int]:
        """The children of the agent by their ids here, with those that the machine sees; nothing where these are the same."""
        return {}


class ChildHelpers(Helpers):
    """Helpers that are processes of the agent."""

    def __init__(self, processes: Processes, tools: Tools, folder: NodeDir) -> None:
        self._processes = processes
        self._tools = tools
        self._folder = folder

    def start(self, name: str, words: Sequence[str], keep: Sequence[int] = ()) -> Running:
        argv = self._tools.own(*words, *map(str, keep))
        kept = [*keep, *([keys.held()] if keys.held() >= 0 else [])]
        with held():
            process = self._processes.start(name, argv, environment.given(), "/", self._folder.log(name), keep=kept)
        process.service = True
        return process

    def kill_all(self) -> list[Running]:
        return self._processes.kill_all()


class KeeperHelpers(Helpers):
    """Helpers that are processes of the keeper, at the other end of a socket."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._numbers = itertools.count()
        self._running: dict[int, Running] = {}
        self._ended: list[Running] = []

    def start(self, name: str, words: Sequence[str], keep: Sequence[int] = ()) -> Running:
        number = next(self._numbers)
        process = Running(name, 0, -1, time.time(), service=True)
        socket.send_fds(self._line, [_message(start=number, name=name, words=list(words))], list(keep))
        self._running[number] = process
        return process

    def fileno(self) -> int:
        return self._line.fileno()

    def ended(self, stopping: bool) -> list[Running]:
        with suppress(BlockingIOError):
            while True:
                self._receive(stopping, socket.MSG_DONTWAIT)
        found, self._ended = self._ended, []
        return found

    def kill_all(self) -> list[Running]:
        self._line.send(_message(kill=True))
        while self._running:
            self._receive(True)
        return self.ended(True)

    def seen(self, agent: int) -> dict[int, int]:
        self._line.send(_message(see=agent))
        while "seen" not in (message := self._receive(False)):
            pass  # a helper ended meanwhile
        return {int(inside): pid for inside, pid in message["seen"].items()}

    def _receive(self, stopping: bool, flags: int = 0) -> dict[str, Any]:
        data = self._line.recv(MOST, flags)
        while not data:
            signal.pause()  # the keeper is gone, and this process is about to be killed with it
        message: dict[str, Any] = json.loads(data)
        process = self._running.pop(message["ended"], None) if "ended" in message else None
        if process is not None:
            process.end(message["status"], stopping)
            self._ended.append(process)
        return message


def _message(**fields: Any) -> bytes:
    return json.dumps(fields).encode()
