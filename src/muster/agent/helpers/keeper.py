"""The keeper of a node: the process outside of its PID namespace that has the keys, and starts the programs that need them.

It shares the node's file system and nothing else with the ranks. A rank may be root and speak through the agent's socket, so
it starts nothing but Muster's own helpers, which get URLs and paths.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from muster.agent.helpers.helpers import MOST
from muster.agent.node import environment
from muster.agent.node.processes import seen_from_outside
from muster.agent.tools import Tools
from muster.linux import keys, syscalls
from muster.linux.signals import Signals, reap_children, send_to_group
from muster.linux.spawn import spawn
from muster.linux.watch import readable
from muster.records.files import open_log
from muster.records.layout import NodeDir

if TYPE_CHECKING:
    from muster.linux.accounts import Account

NAMES = frozenset(("inputs", "outputs", "storage", "note", "harvest", "power"))
PROGRAMS = frozenset(("storage", "power"))
MOST_FILES = 4
NOT_STARTED = 127 << 8  # as the status of a process


class Keeper:
    """`proc` is a descriptor of the machine's own /proc: that of the node does not show this process.

    Where the node has an `account`, keeper and helpers are root's and open files with the rights of the account alone.
    """

    def __init__(self, line: socket.socket, tools: Tools, folder: NodeDir, proc: int, account: Account | None = None) -> None:
        self._line = line
        self._tools = tools
        self._folder = folder
        self._proc = proc
        self._account = account
        self._environment = environment.own()
        self._running: dict[int, int] = {}  # the agent's numbers of helpers, by process id

    def carry_on(self) -> NoReturn:
        """Never returns: this process is killed when the node ends."""
        if self._account is not None:
            from muster.linux import accounts

            accounts.open_files_as(self._account)
        signals = Signals((signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))  # the agent handles these
        while True:
            readable([self._line.fileno(), signals.fileno()], None)
            signals.take()
            for pid, status in reap_children():
                send_to_group(pid)  # what it started is of no use without it
                self._send(ended=self._running.pop(pid, None), status=status)
            if readable([self._line.fileno()], 0):
                self._answer()

    def _answer(self) -> None:
        data, files, _, _ = socket.recv_fds(self._line, MOST, MOST_FILES)
        if not data:
            os._exit(0)  # the agent is gone
        try:
            asked = json.loads(data)
            if "start" in asked:
                self._start(asked["start"], asked["name"], asked["words"], files)
            elif "see" in asked:
                self._send(seen=seen_from_outside(self._proc, int(asked["see"])))
            elif "kill" in asked:
                for pid in self._running:
                    send_to_group(pid)
        finally:
            for file in files:
                os.close(file)

    def _start(self, number: int, name: str, words: Sequence[str], files: list[int]) -> None:
        if name not in NAMES or words[0] not in PROGRAMS:
            self._send(ended=number, status=NOT_STARTED)
            return
        try:
            log = open_log(self._folder.log(name))
        except OSError:  # ranks have put something in its place that cannot be written
            self._send(ended=number, status=NOT_STARTED)
            return
        try:
            rights = () if self._account is None else ("as", self._account.to_text())
            argv = self._tools.own(*rights, *words, *map(str, files))
            pid = spawn(argv, self._environment, log, [*files, keys.held()], before=syscalls.die_with_parent)
        except (OSError, subprocess.SubprocessError) as error:
            os.write(log, (f"muster: {error}\n").encode())
            self._send(ended=number, status=NOT_STARTED)
            return
        finally:
            os.close(log)
        self._running[pid] = number

    def _send(self, **fields: Any) -> None:
        try:
            self._line.send(json.dumps(fields).encode())
        except BrokenPipeError:
            os._exit(0)  # the agent is gone
