"""The endpoints of a node: TensorBoard and Jupyter beside the ranks, services of the job's own, and logins of people.

None of them can fail a run: what is wrong with one stands in its state. Their states are in `endpoints.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any, Callable

from muster.agent.node.launcher import Launcher
from muster.agent.node.processes import Running, why_not_started
from muster.agent.node.services.idle import Idle
from muster.agent.ssh import server
from muster.job.endpoints import HELPERS, IDLE_LIMIT, LOGIN, TENSORBOARD, Endpoint, variable
from muster.linux import listeners
from muster.linux.signals import send, send_to_group
from muster.plan import NodePlan
from muster.records import endpoints
from muster.records.files import write_json
from muster.records.text.units import duration

LOOK = 2.0  # seconds between two looks whether the job's own services listen
IDLE_LOOK = 15.0
MOST_REPORT = 4096  # bytes


class Endpoints:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._job = job = launcher.job
        self._dir = launcher.dir
        node = launcher.info.node
        self._own: dict[str, Endpoint] = {name: found for name, found in job.endpoints.items() if found.on == node}
        self._states: dict[str, dict[str, Any]] = {}
        self._processes: dict[int, str] = {}  # names of endpoints that were started here, by process id
        self._key = ""
        self._ports: dict[str, int] = {}
        self._idle: Idle | None = None

    # -- before the ranks start

    def listen(self, run: str, attempt: int) -> dict[int, socket.socket]:
        """Opens the port of the node's ssh server: for other nodes at its address, for people alone on loopback."""
        address = self._launcher.info.address
        if self._job.ssh:
            return server.listen(address, run, attempt)
        return server.listen_once(address if address.startswith("127.") else "127.0.0.1") if self._job.login else {}

    def prepare(self, keys: dict[str, Any], ports: Sequence[int]) -> None:
        """Takes the key of the attempt and the ports of this node, and gives ranks the variables of their endpoints."""
        self._key = str(keys.get(endpoints.KEY, ""))
        started = self._job.started_endpoints
        self._ports = dict(zip(started, ports[len(ports) - len(started) :]))
        for name, endpoint in self._own.items():
            if name in HELPERS:
                continue
            self._launcher.given[variable(name, "PORT")] = str(endpoint.port)
            self._launcher.given[variable(name, "TOKEN")] = endpoints.token(self._key, name)

    # -- while they run

    def start(self, plan: NodePlan) -> None:
        """Starts those of this node, after its ranks."""
        for name, endpoint in self._own.items():
            if name in HELPERS:
                self._start(plan, name, endpoint)
            else:
                self._note(name, endpoints.WAITING, endpoint.port, f"nothing listens at port {endpoint.port} yet")
        if any(name not in HELPERS for name in self._own):
            self._look()
            self._launcher.loop.every(LOOK, self._look)
        if self._job.is_environment:
            self._watch_idleness()

    def _start(self, plan: NodePlan, name: str, endpoint: Endpoint) -> None:
        launcher, port = self._launcher, self._ports[name]
        planned = dict(plan.setup_env, MUSTER_ENDPOINT_TOKEN=endpoints.token(self._key, name))
        env = launcher.environment(plan, planned, plan.cwd)
        python = self._job.python or ("python" if shutil.which("python", path=env.get("PATH")) else "python3")
        reader, writer = os.pipe()
        argv = [python, "-m", "muster_endpoints", name, str(writer), str(port)]
        argv += [endpoint.logdir or "."] if name == TENSORBOARD else []
        self._note(name, endpoints.STARTING, port)
        try:
            process = launcher.processes.start(name, argv, env, plan.cwd, self._dir.log(name), keep=(writer,))
        except (OSError, ValueError) as error:
            os.close(reader)
            self._note(name, endpoints.FAILED, None, why_not_started(python, env, error))
            return
        finally:
            os.close(writer)
        process.service = True
        self._processes[process.pid] = name
        launcher.loop.readers[reader] = self._reported(name, port, reader)

    def _reported(self, name: str, port: int, reader: int) -> Callable[[], None]:
        """Takes in what an endpoint says of its start, in one line."""

        def take() -> None:
            said = os.read(reader, MOST_REPORT)
            del self._launcher.loop.readers[reader]
            os.close(reader)
            try:
                found = json.loads(said)
            except ValueError:
                return  # it ended without a word, which its exit code tells
            if isinstance(found, dict) and found.get("ready"):
                self._note(name, endpoints.READY, port)
            elif isinstance(found, dict) and found.get("failed"):
                self._note(name, endpoints.FAILED, None, str(found["failed"])[: endpoints.MOST_REASON])

        return take

    def missing_for_logins(self, folder: str) -> str:
        """What keeps people from logging in on this node; nothing where it has keys and an ssh server."""
        if not os.path.exists(folder + "/user.pub"):
            return "there are no keys for logins: ssh-keygen failed where the run was started; install the ssh client there"
        if not os.access(server.program(), os.X_OK):
            return "there is no sshd on this node; install an ssh server, which need not run"
        return ""

    def logins(self, port: int | None, reason: str = "") -> None:
        """Notes that people can log in at a port of this node, or why not."""
        if self._job.login:
            self._note(LOGIN, endpoints.FAILED if port is None else endpoints.READY, port, reason)

    def ended(self, process: Running) -> None:
        """Notes that an endpoint has ended, unless it has said why itself."""
        name = self._processes.pop(process.pid, None)
        if name is None or self._launcher.loop.ending or self._states[name]["state"] == endpoints.FAILED:
            return
        how = f"signal {process.signal}" if process.signal else f"exit code {process.code}"
        self._note(name, endpoints.FAILED, None, f"it ended with {how}; `muster logs RUN --process {name}` shows why")

    def stop(self) -> None:
        """Lets what was started here end by itself, before everything is killed."""
        for pid in self._processes:
            send_to_group(pid, signal.SIGTERM)

    def _look(self) -> None:
        """Finds out which of the job's own services listen: nothing tells of that."""
        if self._launcher.loop.ending:
            return
        user = frozenset((os.getuid(),))
        for name, endpoint in self._own.items():
            if name not in HELPERS and endpoint.port is not None:
                there = listeners.address_of(endpoint.port, user) is not None
                reason = "" if there else f"nothing listens at port {endpoint.port}"
                self._note(name, endpoints.READY if there else endpoints.WAITING, endpoint.port, reason)

    def _note(self, name: str, state: str, port: int | None, reason: str = "") -> None:
        entry = {"state": state, "port": port, "reason": reason}
        if entry.items() <= self._states.get(name, {}).items():
            return
        self._states[name] = {**entry, "since": time.time()}
        write_json(self._dir.endpoints, self._states)

    # -- environments

    def _watch_idleness(self) -> None:
        limit = IDLE_LIMIT if self._job.idle_limit is None else self._job.idle_limit
        if limit:
            token = endpoints.token(self._key, "jupyter")
            self._idle = Idle(self._launcher.processes, limit, self._ports.get("jupyter"), token)
            self._launcher.loop.every(min(IDLE_LOOK, limit / 4), self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._idle is None or self._launcher.loop.ending or not self._idle.is_over():
            return
        limit, self._idle = self._idle.limit, None
        self._launcher.events.add("idle", reason=f"nobody used it for {duration(limit)} (idle_limit)")
        for process in self._launcher.processes.running.values():
            if process.rank >= 0:
                send(process.pid, signal.SIGUSR1)
