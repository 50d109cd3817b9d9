"""Starts the processes of a node: ranks, the helpers beside them, its ssh server, and programs that work for the agent."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Callable

from muster.agent.helpers.helpers import Helpers
from muster.agent.node import environment, transfers
from muster.agent.node.loop import Loop
from muster.agent.node.openmpi import Sessions
from muster.agent.node.ports import Ports
from muster.agent.node.processes import Processes, Running, why_not_started
from muster.agent.tools import Tools
from muster.dataclass import dataclass, field
from muster.job import Job
from muster.linux.held_signals import held
from muster.plan import Gate, NodeInfo, NodePlan, Process
from muster.records.files import Events
from muster.records.layout import NodeDir

Fail = Callable[[dict[str, Any]], None]


@dataclass(frozen=False)
class Launcher:
    job: Job
    tools: Tools
    info: NodeInfo
    dir: NodeDir
    loop: Loop
    processes: Processes
    helpers: Helpers
    events: Events
    fail: Fail  # called with what failed where a process cannot be started
    exported: dict[str, str] = field(default_factory=dict)  # by the job's setup
    given: dict[str, str] = field(default_factory=dict)  # variables of endpoints, which are not on record: some are secrets
    ssh: dict[int, socket.socket] = field(default_factory=dict)  # listening, by port, until the ssh server has its own
    sessions: Sessions = field(default_factory=Sessions)
    storage: transfers.StorageSocket = field(default_factory=transfers.StorageSocket)

    def environment(self, plan: NodePlan, planned: dict[str, str], cwd: str) -> dict[str, str]:
        """The environment of a process of this node, with the way to storage in it."""
        planned = dict(planned, **self.storage.variables, **self.given)
        env = environment.compose(plan.defaults, planned, plan.secrets, self.exported, cwd, plan.prefix)
        env["PYTHONPATH"] = ":".join(filter(None, (env.get("PYTHONPATH"), self.tools.shims)))
        if self.job.framework == "mpi" and plan.ssh and not self.info.reception:  # mpirun starts the ranks
            env["TMPDIR"] = self.sessions.folder(env)
        return env

    def start(
        self, name: str, argv: Sequence[str], env: dict[str, str], cwd: str, rank: int = -1, keep: Sequence[int] = ()
    ) -> Running | None:
        own = self.tools.archive in argv[:4]  # a Python with the packed agent
        try:
            with held() if own else nullcontext():
                return self.processes.start(name, argv, env, cwd, self.dir.log(name), rank, keep)
        except (OSError, ValueError) as error:
            message = why_not_started(argv[0], env, error)
            self.fail({"kind": "start", "process": name, "rank": rank, "code": 127, "message": message})
            return None

    def start_all(self, plan: NodePlan, processes: Sequence[Process]) -> bool:
        """Starts processes of a plan; false when one of them cannot be started."""
        for process in processes:
            env = self.environment(plan, process.env, process.cwd)
            if self.start(process.name, process.argv, env, process.cwd, process.rank) is None:
                return False
        return True

    def start_with_keys(self, name: str, words: list[str], keep: Sequence[int] = ()) -> Running | None:
        """Starts one of Muster's own programs that is given keys; its end is no failure by itself."""
        try:
            return self.helpers.start(name, words, keep)
        except (OSError, ValueError) as error:
            message = why_not_started(self.tools.python, {}, error)
            self.fail({"kind": "start", "process": name, "rank": -1, "code": 127, "message": message})
            return None

    def start_service(self, name: str, argv: list[str], keep: Sequence[int] = ()) -> Running | None:
        """Starts a process that works for the agent among those of the node; its end is no failure by itself."""
        process = self.start(name, argv, environment.given(), "/", keep=keep)
        if process is not None:
            process.service = True
        return process

    def start_ssh(self, plan: NodePlan, config: str) -> bool:
        descriptor = self.ssh[plan.ssh or next(iter(self.ssh))].fileno()
        argv = [sys.executable, "-I", "-S", self.tools.archive, "sshd", str(descriptor), config]
        process = self.start("sshd", argv, self.environment(plan, plan.setup_env, plan.cwd), plan.cwd, keep=(descriptor,))
        for listener in self.ssh.values():
            listener.close()
        if process is not None:
            process.service = True  # ranks may write through it until they end
        return process is not None

    def open_gates(self, plan: NodePlan, ports: Ports) -> None:
        """Lets the first connection to its port start a helper: one without connections cannot fail."""
        for process in plan.processes:
            if process.gate is not None:
                self._open_gate(plan, process, process.gate, ports.listen(process.gate.port))

    def _open_gate(self, plan: NodePlan, process: Process, gate: Gate, listener: socket.socket) -> None:
        number = listener.fileno()
        argv = self.tools.own("gate", str(number), gate.host, str(gate.inner), *process.argv)

        def start() -> None:
            del self.loop.readers[number]
            env = self.environment(plan, process.env, process.cwd)
            helper = None if self.loop.ending else self.start(process.name, argv, env, process.cwd, keep=(number,))
            listener.close()
            if helper is not None:
                self.note_outer_ids()
                self.events.add("start", process=helper.name, rank=-1, pid=helper.seen or helper.pid)

        self.loop.readers[number] = start

    def await_storage_client(self) -> None:
        """Lets the first rank that asks for storage start the server, which takes over from there."""
        number = self.storage.fileno()

        def start() -> None:
            del self.loop.readers[number]
            self.start_with_keys("storage", ["storage", "serve"], (number,))

        self.loop.readers[number] = start

    def note_outer_ids(self) -> None:
        """Notes the ids that processes have outside of this node."""
        self.processes.note_seen(self.helpers.seen(self.info.agent))
        if self.helpers.fileno() in self.loop.readers:
            self.loop.readers[self.helpers.fileno()]()  # ends that were read before that answer
