"""The agent: carries out one node's part of one attempt, from its facts to the last process gone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from typing import Any, Callable

from muster.agent.helpers.helpers import ChildHelpers, Helpers, KeeperHelpers
from muster.agent.node import stacks, staging, transfers
from muster.agent.node.collector import Collector, notes
from muster.agent.node.environment import NO_WORD, Setup
from muster.agent.node.hold import hold
from muster.agent.node.launcher import Launcher
from muster.agent.node.loop import Listener, Loop
from muster.agent.node.ports import Ports
from muster.agent.node.processes import Processes, Running
from muster.agent.node.services.endpoints import Endpoints
from muster.agent.node.trainer_groups import TrainerGroups
from muster.agent.node.transfers import Outputs
from muster.agent.sandbox.memory import Memory, group
from muster.agent.ssh import server
from muster.agent.supervisor.site import Assignment
from muster.channel.base import NodeChannel
from muster.dataclass import replace
from muster.job import LAUNCHERS
from muster.linux.held_signals import release
from muster.metrics import result_files
from muster.plan import NodeInfo, NodePlan, Places, PlanError, World, build
from muster.records.files import Events, read_object, write_json
from muster.records.layout import AttemptDir
from muster.records.run_view import Cause, Stop
from muster.records.text.failures import over_time

LEFTOVER_PAUSE = 0.1  # between two looks for processes whose end causes no event
MEMORY_PAUSE = 0.5
OVERTIME = 5.0  # after which agents themselves end a run that its supervisor should have ended
ANSWER_LIMIT = 5.0  # for the supervisor to answer a request to stop
CUT_OFF = "its supervisor could not be reached any more"
STORAGE_PAUSE = 1.0  # between the end of a storage server and the next one


class Agent(Listener):
    """`keeper` leads to the process that starts helpers, where the node is a namespace.

    `patience` is the time between a signal to the agent and its death, where a batch system counts it. `parent` is a
    descriptor that is readable when the supervisor is gone. `memory` is the limit of the node where it was made already, by
    root for an account.
    """

    def __init__(
        self,
        assignment: Assignment,
        attempt: AttemptDir,
        info: NodeInfo,
        channel: NodeChannel,
        keeper: socket.socket | None = None,
        patience: float | None = None,
        parent: int | None = None,
        deadline: float | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.run = assignment.run
        self.job = job = assignment.job
        self.code = assignment.code
        self.info = info
        self.attempt = attempt
        self.dir = attempt.node(info.node)
        self.contained = keeper is not None
        self.patience = patience
        self._given_memory = memory
        for folder in (self.dir.logs, self.dir.results, self.dir.work):
            os.makedirs(folder, exist_ok=True)
        self.events = Events(self.dir.events)
        self.channel = channel
        self.processes = Processes(self.contained)
        self.loop = Loop(channel, self.processes, parent, self)
        release()
        self.stop: Stop | None = None
        self.requested = False  # whether a request to stop was published
        self.failed = False
        self.started = False
        self.done = False
        self.plan: NodePlan | None = None
        self.unsaved = ""  # why outputs could not be uploaded at the end
        tools = assignment.tools
        self.helpers: Helpers = KeeperHelpers(keeper) if keeper else ChildHelpers(self.processes, tools, self.dir)
        if self.helpers.fileno() >= 0:
            self.loop.readers[self.helpers.fileno()] = self._take_helpers
        self.launcher = launcher = Launcher(
            job, tools, info, self.dir, self.loop, self.processes, self.helpers, self.events, self._fail
        )
        launcher.await_storage_client()
        self.outputs = Outputs(self.dir, self.loop, self.helpers, launcher.start_with_keys)
        self.collector = Collector(tools, job, self.dir, self.loop, launcher.start_with_keys, launcher.start_service)
        self.trainer_groups = TrainerGroups(job, self.loop, self.processes)
        self.endpoints = Endpoints(launcher)
        if deadline is not None:
            self.loop.later(deadline + OVERTIME - time.monotonic(), self._keep_time)

    def carry_out(self) -> None:
        """The whole life of the agent."""
        self.memory = self._given_memory or Memory(group(self.run.id, self.info.node), self.job.memory)
        ports = Ports(self.job.ports_per_node)
        self.launcher.ssh = self.endpoints.listen(self.run.id, self.attempt.number)
        try:
            self.plan = plan = self._meet(ports)
            if plan is not None and self._prepare(plan):
                self.launcher.open_gates(plan, ports)
                ports.release()
                self._start(plan)
            self._until(lambda: False)  # for the gang to be stopped, because all is done or something failed
        finally:
            ports.close()
        self._end()

    # -- meeting the others

    def _meet(self, ports: Ports) -> NodePlan | None:
        """Publishes the facts of this node, waits for the world and makes a plan of it."""
        facts = replace(
            self.info,
            ports=tuple(ports.numbers),
            agent=self.info.agent or os.getpid(),
            uid=os.getuid(),
            gid=os.getgid(),
            nvidia=shutil.which("nvidia-smi") is not None,
            ssh=tuple(self.launcher.ssh) if self.job.ssh else (),
        )
        self.channel.publish("facts", facts.to_json())
        if self.info.node == 0 and notes(self.job):
            self.collector.note()
            if self._until(lambda: self.collector.noted):
                self.channel.publish("noted", {})
        if not self._until(lambda: self.channel.announced("world") is not None):
            return None
        world = World.from_json(self.channel.announced("world") or {})
        places = self._places()
        try:
            if self.job.has_keys:
                keys = self.channel.announced("keys") or {}
                server.write_keys(places.ssh, keys)
                self.endpoints.prepare(keys, facts.ports)
            plan = build(self.job, world, self.info.node, places)
        except PlanError as error:
            self._fail({"kind": "plan", "message": str(error)})
            return None
        write_json(self.dir.plan, plan.to_json())
        return plan

    def _places(self) -> Places:
        folder, attempt = self.dir, self.attempt
        roots = ("", "") if self.contained else (folder.root, attempt.root)
        return Places(folder.path, folder.work, folder.results, self.run.shared, f"{attempt.ssh}/{self.info.node}", *roots)

    # -- starting

    def _prepare(self, plan: NodePlan) -> bool:
        """Code, files, inputs and setup; false when the gang was stopped meanwhile."""
        if self.job.memory and not self.memory.kept_by_kernel:
            self.loop.every(MEMORY_PAUSE, self._check_memory)
        try:
            staging.lay_out(plan, self.code)
        except OSError as error:
            message = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            self._fail({"kind": "code", "code": 127, "message": message})
            return False
        return self._fetch(plan) and (self._setup(plan) if plan.setup else True) and self._idle()

    def _idle(self) -> bool:
        """Waits, where the job asks for it, to measure what an idle node takes."""
        bench = self.job.bench
        if bench is not None and bench.idle:
            self.collector.watch()
            self._until(lambda: False, bench.idle)
        return self.stop is None

    def _fetch(self, plan: NodePlan) -> bool:
        words = transfers.fetch(plan)
        if not words:
            return True
        self.events.add("inputs")
        process = self.launcher.start_with_keys("inputs", words)
        if process is None or not self._until(lambda: process.ended is not None):
            return False
        if process.failed:
            why = transfers.why(self.dir, process)
            self._fail({"kind": "input", "process": "inputs", "rank": -1, "code": process.code, "message": why})
        self.events.add("inputs-ended")
        return not process.failed

    def _setup(self, plan: NodePlan) -> bool:
        setup = Setup(plan.setup, self.launcher.environment(plan, plan.setup_env, plan.cwd))
        try:
            process = self.launcher.start("setup", setup.argv, setup.before, plan.cwd, keep=(setup.dump,))
            if process is None or not self._until(lambda: process.ended is not None) or process.failed:
                return False
            exported = setup.exported()
        finally:
            setup.close()
        if exported is None:
            self._fail({"kind": "setup", "process": "setup", "rank": -1, "code": 1, "message": NO_WORD})
            return False
        self.launcher.exported = exported
        return True

    def _start(self, plan: NodePlan) -> None:
        launcher = self.launcher
        helpers = [process for process in plan.processes if process.rank < 0 and process.gate is None]
        ranks = [process for process in plan.processes if process.rank >= 0]
        if (plan.ssh or self.job.login) and not self._start_ssh(plan):
            return
        if not launcher.start_all(plan, helpers) or (plan.together and not self._all_ready()):
            return
        if not launcher.start_all(plan, ranks):
            return
        launcher.note_outer_ids()
        for started in (process for process in self.processes.all if not process.service):
            self.events.add("start", process=started.name, rank=started.rank, pid=started.seen or started.pid)
        self.collector.started({process.rank: process.pid for process in self.processes.all if process.rank >= 0})
        self.endpoints.start(plan)
        self.outputs.begin(plan)
        self.trainer_groups.begin()
        self.started = True
        self.channel.publish("up", {"processes": len(plan.processes)})
        self._check_done()

    def _start_ssh(self, plan: NodePlan) -> bool:
        """Starts the ssh server; where only people use it, the run goes on without it."""
        port, folder = plan.ssh or next(iter(self.launcher.ssh)), f"{self.attempt.ssh}/{self.info.node}"
        missing = self.endpoints.missing_for_logins(folder) if not plan.ssh else ""
        if missing:
            self.endpoints.logins(None, missing)
            return True
        self.endpoints.logins(port)
        return self.launcher.start_ssh(plan, f"{folder}/sshd_config")

    def _all_ready(self) -> bool:
        """Waits until the helpers of all nodes are up, for programs that reach the other nodes themselves."""
        self.channel.publish("ready", {})
        return self._until(lambda: self.channel.announced("ready") is not None)

    # -- events

    def _until(self, reached: Callable[[], bool], limit: float | None = None) -> bool:
        """Handles events until a condition holds; false when the gang is stopped or the time is up first."""
        return self.loop.until(lambda: self.stop is not None or reached(), limit) and self.stop is None

    def announced(self) -> None:
        if self.stop is None:
            found = self.channel.announced("stop")
            self.stop = None if found is None else Stop.from_json(found)

    def terminated(self) -> None:
        """Requests a stop, of which the supervisor knows the cause and the grace; ends alone where it does not answer."""
        if self.stop is None and not self.requested:
            stop = self._request(Cause.TERMINATED, f"node {self.info.node} was told to end (SIGTERM)", self.patience)
            limit = ANSWER_LIMIT if self.patience is None else min(ANSWER_LIMIT, self.patience / 2)
            self.loop.later(limit, lambda: self._stop_alone(stop))

    def _keep_time(self) -> None:
        """Ends the ranks in the place of a supervisor that is stopped, so that they do not use devices without an end."""
        if self.stop is None:
            self._stop_alone(self._request(Cause.TIME_LIMIT, over_time(self.job.time_limit or 0)))

    def _request(self, cause: Cause, reason: str, grace: float | None = None) -> Stop:
        stop = Stop(cause, reason, self.job.grace if grace is None else min(grace, self.job.grace))
        self.requested = True
        self.channel.publish("stop-request", stop.to_json())
        return stop

    def _stop_alone(self, stop: Stop) -> None:
        self.stop = self.stop or stop

    def _take_helpers(self) -> None:
        for process in self.helpers.ended(self.loop.ending):
            self.ended(process)

    def ended(self, process: Running) -> None:
        if process.service:
            if process.name == "storage" and process.signal:
                self.loop.later(STORAGE_PAUSE, self.launcher.await_storage_client)
            elif process.name == "sshd" and process.failed and not self.job.ssh:
                self.endpoints.logins(None, transfers.why(self.dir, process))
            elif process.name in ("storage", "sshd") and process.failed:  # ranks would wait for it without an end
                why = transfers.why(self.dir, process)
                kind = "signal" if process.signal else "start"
                end = {"rank": -1, "code": process.code, "signal": process.signal, "message": why}
                self._fail(dict(end, kind=kind, process=process.name))
            self.endpoints.ended(process)
            return
        self.events.add("exit", process=process.name, rank=process.rank, code=process.code, signal=process.signal)
        if process.failed and not (self.done and process.rank < 0):
            end = {"kind": "signal" if process.signal else "exit", "process": process.name, "rank": process.rank}
            end.update(code=process.code, signal=process.signal)
            rank = read_object(self.dir.failure) if process.name == "reception" else None
            if rank:  # which the reception has started, and with which it ended
                end.update(rank)
                process.stopped = True
            killed = end["signal"] == signal.SIGKILL or end["code"] == 128 + signal.SIGKILL
            ran_out = self.memory.ran_out()
            self._fail(dict(end, oom=killed and ran_out, oom_before=not killed and ran_out and self.memory.kept_by_kernel))
        self._check_done()

    def _check_done(self) -> None:
        """Publishes that all ranks of this node have ended well. A node of helpers alone is never done."""
        ranks = [process for process in self.processes.all if process.rank >= 0]
        if self.started and ranks and not self.done and self.stop is None and all(rank.code == 0 for rank in ranks):
            self.done = True
            self.channel.publish("done", {})

    def _fail(self, failure: dict[str, Any]) -> None:
        """Notes a failure of this node; the first is published."""
        failure = dict(failure, node=self.info.node)
        self.events.add("failure", **failure)
        if not self.failed:
            self.failed = True
            self.channel.publish("failed", failure)

    def _check_memory(self) -> None:
        used = self.memory.too_much(self.processes)
        if used is not None and self.stop is None:
            self._fail({"kind": "memory", "used": used, "limit": self.job.memory})

    # -- ending

    def _end(self) -> None:
        stop = self.stop or Stop(Cause.UNKNOWN)
        self.loop.ending = True
        if stop.cause is Cause.SILENT:
            files, asked = stacks.dump(self.processes, self.dir.stacks)
            self.events.add("stacks", files=files, in_logs=asked)
        self.endpoints.stop()
        if self.processes.others(but_services=True):
            self._terminate(ranks_alone=self.job.framework in LAUNCHERS and stop.cause not in (Cause.FINISHED, Cause.FAILURE))
            self._await_processes(time.monotonic() + stop.grace)
        self.collector.ended()
        for process in [*self.processes.kill_all(), *self.helpers.kill_all()]:
            self.ended(process)
        self.launcher.sessions.close()
        if self.plan is not None:
            for path, reason in result_files.irregular(self.dir):
                self.events.add(result_files.REFUSED, path=path, reason=reason)
            self.collector.harvest(self.plan)
            cut_off = self.channel.announced("cut") is not None  # another attempt may write to the same outputs
            limit = transfers.FAREWELL if stop.cause is Cause.PREEMPTED else None  # somebody waits for its devices
            self.unsaved = self._keep_outputs(self.plan) if cut_off else self.outputs.save(self.plan, self.job.log_url, limit)
            if stop.hold and not cut_off:
                hold(self.plan, self.launcher, self.loop, stop.hold)
        if stop.cause is Cause.FINISHED and not self.unsaved:
            staging.clear(self.dir.root + "/cache")
        end = {
            "node": self.info.node,
            "cause": stop.cause.value,
            "ended": time.time(),
            "unsaved": self.unsaved,
            "worlds": self.trainer_groups.to_json(),
            "processes": [process.to_json() for process in self.processes.all if not process.service],
        }
        write_json(self.dir.exit, end)

    def _keep_outputs(self, plan: NodePlan) -> str:
        """Why outputs stay here, where there are any."""
        return CUT_OFF if plan.outputs or plan.log else ""

    def _terminate(self, ranks_alone: bool) -> None:
        """Sends SIGTERM. A launcher that got it would kill its ranks, on all nodes: it ends when they have."""
        if ranks_alone:
            found = self.processes.signal_launched(signal.SIGTERM)
            self.processes.signal_launched(signal.SIGCONT)
            if found or self.info.node != 0:
                return
        self.processes.signal_all(signal.SIGTERM)
        self.processes.signal_all(signal.SIGCONT)

    def _await_processes(self, deadline: float) -> None:
        """Waits until nothing but services is left, the time is up, or everything has to end at once."""
        while self.processes.others(but_services=True) and time.monotonic() < deadline and not self.loop.killed:
            self.loop.pause(min(deadline - time.monotonic(), LEFTOVER_PAUSE))
