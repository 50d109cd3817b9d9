"""The agent: carries out one node's part of one attempt, from its facts to the last process gone."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Callable

from muster.agent.helpers.helpers import Helpers, Kept, Own
from muster.agent.node import ending, environment, staging, transfers, watchdog
from muster.agent.node.collector import Measuring
from muster.agent.node.loop import Listener, Loop
from muster.agent.node.node_info import Spot
from muster.agent.node.openmpi import Sessions
from muster.agent.node.ports import Ports
from muster.agent.node.processes import Processes, Running, why_not_started
from muster.agent.node.setup import NO_WORD, Setup
from muster.agent.node.trainer_groups import Worlds
from muster.agent.node.transfers import Outputs
from muster.agent.sandbox.memory import Memory, group
from muster.agent.ssh import server
from muster.agent.supervisor.site import Assignment
from muster.channel.directory import Rendezvous
from muster.job import LAUNCHERS
from muster.linux.held_signals import held, release
from muster.metrics import result_files
from muster.plan import Facts, Gate, NodePlan, Places, PlanError, Process, World, assemble, build, shared_files
from muster.records.failure_text import duration, over_time
from muster.records.files import Events, read_object, write_json, write_text
from muster.records.layout import AttemptDir

GATHER_LIMIT = 120.0  # for all nodes to come to the rendezvous
LEFTOVER_GRACE = 5.0  # for helpers and forgotten children once the ranks are done
MEMORY_PAUSE = 0.5
OVERTIME = 5.0  # after which agents themselves end a run that its supervisor should have ended
SETTLE = 0.1  # between the first failure and the stop that it causes
WORD_LIMIT = 5.0  # for the supervisor to say what a signal to an agent means
STORAGE_PAUSE = 1.0  # between the end of a storage server and the next one


class Agent(Listener):
    def __init__(
        self,
        assignment: Assignment,
        attempt: AttemptDir,
        spot: Spot,
        parent: int | None = None,
        deadline: float | None = None,
    ) -> None:
        self.run = assignment.run
        self.job = job = assignment.job
        self.code = assignment.code
        self.tools = tools = assignment.tools
        self.spot = spot
        self.attempt = attempt
        self.dir = self.attempt.node(spot.index)
        for folder in (self.dir.logs, self.dir.results, self.dir.work):
            os.makedirs(folder, exist_ok=True)
        self.events = Events(self.dir.events)
        self.meeting = Rendezvous(self.attempt, assignment.count)
        self.processes = Processes(spot.contained)
        self.loop = Loop(self.meeting, self.processes, parent, self)
        release()
        self.stop: dict[str, Any] | None = None
        self.failed = False
        self.failures = 0
        self.started = False
        self.done = False
        self.count = assignment.count
        self.helpers: Helpers = Kept(spot.keeper) if spot.keeper else Own(self.processes, tools, self.dir)
        if self.helpers.fileno() >= 0:
            self.loop.doors[self.helpers.fileno()] = self._hear_of_helpers
        self.door = transfers.Door()
        self._wait_for_a_knock()
        self.entrance = server.Entrance()
        self.sessions = Sessions()
        self.plan: NodePlan | None = None
        self.exported: dict[str, str] = {}
        self.outputs = Outputs(self.dir, self.loop, self.helpers, self._serve)
        self.measuring = Measuring(tools, job, self.dir, self.loop, self._serve, self._look)
        self.worlds = Worlds(job, self.loop, self.processes)
        self.unsaved = ""  # why outputs could not be uploaded at the end
        if deadline is not None:
            self.loop.later(deadline + OVERTIME - time.monotonic(), self._keep_time)

    def carry_out(self) -> None:
        """The whole life of the agent."""
        self.memory = Memory(group(self.run.id, self.spot.index), self.job.memory)
        ports = Ports(self.job.ports_per_node)
        if self.job.ssh:
            self.entrance.open(self.spot.address, server.candidates(self.run.id, self.attempt.number))
        try:
            self.plan = plan = self._meet(ports)
            if plan is not None and self._prepare(plan):
                self._open_gates(plan, ports)
                ports.release()
                self._start(plan)
            self._until(lambda: False)  # for the gang to be stopped, because all is done or something failed
        finally:
            ports.release()
        self._end()

    # -- meeting the others

    def _meet(self, ports: Ports) -> NodePlan | None:
        spot = self.spot
        facts = spot.facts(ports.numbers, self.entrance.ports)
        self.meeting.publish(spot.index, "facts", facts.to_json())
        places = self._places()
        try:
            world = self._gather(places) if spot.index == 0 else self._await_world()
            if world is None:
                return None
            plan = build(self.job, world, spot.index, places)
        except PlanError as error:
            self._fail({"kind": "plan", "message": str(error)})
            return None
        write_json(self.dir.plan, plan.to_json())
        return plan

    def _places(self) -> Places:
        folder, attempt = self.dir, self.attempt
        roots = ("", "") if self.spot.contained else (folder.root, attempt.root)
        return Places(folder.path, folder.work, folder.results, self.run.shared, attempt.path, *roots, self.job.servers)

    def _gather(self, places: Places) -> World | None:
        """Node 0: waits for everybody's facts, makes the world and shows it."""
        self.measuring.note()
        everybody = self._until(lambda: self.meeting.counts.get("facts") == self.count, GATHER_LIMIT)
        if not everybody or not self._until(lambda: self.measuring.noted):
            if self.stop is None:
                names = ", ".join(map(str, self.meeting.missing("facts", self.count)[:20]))
                self._stop_all("rendezvous", f"node {names} did not report within {duration(GATHER_LIMIT)}")
            return None
        facts = [Facts.from_json(data) for data in self.meeting.gather("facts", self.count)]
        world = assemble(self.job, self.run.id, self.attempt.number, facts)
        if self.job.ssh:
            server.make_keys(self.attempt.ssh)
        for path, text in shared_files(self.job, world, places).items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_text(path, text)
        write_json(self.attempt.world, world.to_json())
        os.symlink("../world.json", self.attempt.meet + "/world")
        return world

    def _await_world(self) -> World | None:
        if not self._until(lambda: "world" in self.meeting.topics):
            return None
        return World.from_json(self.meeting.get("world") or {})

    # -- starting

    def _prepare(self, plan: NodePlan) -> bool:
        """Code, files, inputs and setup; false when the gang was stopped meanwhile."""
        if self.job.memory and not self.memory.kept_by_kernel:
            self.loop.every(MEMORY_PAUSE, self._check_memory)
        if self.job.silent_limit and self.spot.index == 0:
            self._silence = watchdog.Silence(self.attempt, self.run.shared, self.job.silent_limit)
            self.loop.every(self._silence.pause, self._check_silence)
        try:
            staging.lay_out(plan, self.code)
        except OSError as error:
            message = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            self._fail({"kind": "code", "code": 127, "message": message})
            return False
        return self._fetch(plan) and (self._setup(plan) if plan.setup else True) and self._idle()

    def _idle(self) -> bool:
        """Waits, where that is asked for, to find out what a node takes that does nothing."""
        bench = self.job.bench
        if bench is not None and bench.idle:
            self.measuring.watch()
            self._until(lambda: False, bench.idle)
        return self.stop is None

    def _fetch(self, plan: NodePlan) -> bool:
        words = transfers.fetch(plan)
        if not words:
            return True
        process = self._serve("inputs", words)
        if process is None or not self._until(lambda: process.ended is not None):
            return False
        if process.failed:
            why = transfers.why(self.dir, process)
            self._fail({"kind": "input", "process": "inputs", "rank": -1, "code": process.code, "message": why})
        return not process.failed

    def _setup(self, plan: NodePlan) -> bool:
        setup = Setup(plan.setup, self._environment(plan, plan.setup_env, plan.cwd))
        try:
            process = self._run("setup", setup.argv, setup.before, plan.cwd, keep=(setup.dump,))
            if process is None or not self._until(lambda: process.ended is not None) or process.failed:
                return False
            exported = setup.exported()
        finally:
            setup.close()
        if exported is None:
            self._fail({"kind": "setup", "process": "setup", "rank": -1, "code": 1, "message": NO_WORD})
            return False
        self.exported = exported
        return True

    def _start(self, plan: NodePlan) -> None:
        helpers = [process for process in plan.processes if process.rank < 0 and process.gate is None]
        ranks = [process for process in plan.processes if process.rank >= 0]
        if plan.ssh and not self._start_ssh(plan):
            return
        if not self._start_all(plan, helpers) or (plan.together and not self._all_ready()) or not self._start_all(plan, ranks):
            return
        self._note_seen()
        for started in (process for process in self.processes.all if not process.service):
            self.events.add("start", process=started.name, rank=started.rank, pid=started.seen or started.pid)
        self.measuring.started({process.rank: process.pid for process in self.processes.all if process.rank >= 0})
        self.outputs.begin(plan)
        self.worlds.begin()
        self.started = True
        self.meeting.publish(self.spot.index, "up", {"processes": len(plan.processes)})
        self._check_done()

    def _start_all(self, plan: NodePlan, processes: list[Process]) -> bool:
        for process in processes:
            env = self._environment(plan, process.env, process.cwd)
            if self._run(process.name, process.argv, env, process.cwd, process.rank) is None:
                return False
        return True

    def _open_gates(self, plan: NodePlan, ports: Ports) -> None:
        """Lets the first connection to its port start a helper: one that nobody has asked for cannot fail."""
        for process in plan.processes:
            if process.gate is not None:
                self._open_gate(plan, process, process.gate, ports.listen(process.gate.port))

    def _open_gate(self, plan: NodePlan, process: Process, gate: Gate, listener: socket.socket) -> None:
        number = listener.fileno()
        argv = self.tools.own("gate", str(number), gate.host, str(gate.inner), *process.argv)

        def start() -> None:
            del self.loop.doors[number]
            env = self._environment(plan, process.env, process.cwd)
            helper = self._run(process.name, argv, env, process.cwd, keep=(number,)) if self.stop is None else None
            listener.close()
            if helper is not None:
                self._note_seen()
                self.events.add("start", process=helper.name, rank=-1, pid=helper.seen or helper.pid)

        self.loop.doors[number] = start

    def _start_ssh(self, plan: NodePlan) -> bool:
        descriptor = self.entrance.choose(plan.ssh)
        argv = server.argv(self.tools.archive, descriptor, self.attempt.ssh + "/sshd_config")
        process = self._run("sshd", argv, self._environment(plan, plan.setup_env, plan.cwd), plan.cwd, keep=(descriptor,))
        self.entrance.close()
        if process is not None:
            process.service = True  # ranks may write through it until they end
        return process is not None

    def _all_ready(self) -> bool:
        """Waits until the helpers of all nodes are up, for programs that reach the other nodes themselves."""
        self.meeting.publish(self.spot.index, "ready", {})
        return self._until(lambda: self.meeting.counts.get("ready") == self.count)

    def _environment(self, plan: NodePlan, planned: dict[str, str], cwd: str) -> dict[str, str]:
        """The environment of a process of this node, with the way to storage in it."""
        planned = dict(planned, **self.door.variables)
        env = environment.compose(plan.defaults, planned, plan.secrets, self.exported, cwd, plan.prefix)
        env["PYTHONPATH"] = ":".join(filter(None, (env.get("PYTHONPATH"), self.tools.shims)))
        if self.job.framework == "mpi" and plan.ssh and not self.spot.reception:  # mpirun starts the ranks
            env["TMPDIR"] = self.sessions.folder(env)
        return env

    def _serve(self, name: str, words: list[str], keep: Sequence[int] = ()) -> Running | None:
        """Starts a helper that is given keys; its end is no failure by itself."""
        try:
            return self.helpers.start(name, words, keep)
        except (OSError, ValueError) as error:
            message = why_not_started(self.tools.python, {}, error)
            self._fail({"kind": "start", "process": name, "rank": -1, "code": 127, "message": message})
            return None

    def _look(self, name: str, argv: list[str], keep: Sequence[int] = ()) -> Running | None:
        """Starts a process that works for the agent among those of the node; its end is no failure by itself."""
        process = self._run(name, argv, environment.given(), "/", keep=keep)
        if process is not None:
            process.service = True
        return process

    def _note_seen(self) -> None:
        """Notes the ids that processes have outside of this node."""
        self.processes.note_seen(self.helpers.seen(self.spot.seen))
        self._hear_of_helpers()  # what came before that answer

    def _hear_of_helpers(self) -> None:
        for process in self.helpers.ended(self.loop.ending):
            self.ended(process)

    def _wait_for_a_knock(self) -> None:
        """Lets the first rank that asks for storage start the server, which takes over from there."""
        number = self.door.fileno()

        def answer() -> None:
            del self.loop.doors[number]
            self._serve("storage", ["storage", "serve"], (number,))

        self.loop.doors[number] = answer

    def _run(
        self, name: str, argv: Any, env: dict[str, str], cwd: str, rank: int = -1, keep: Sequence[int] = ()
    ) -> Running | None:
        own = self.tools.archive in argv[:4]  # a Python with the packed agent
        try:
            with held() if own else nullcontext():
                return self.processes.start(name, argv, env, cwd, self.dir.log(name), rank, keep)
        except (OSError, ValueError) as error:
            message = why_not_started(argv[0], env, error)
            self._fail({"kind": "start", "process": name, "rank": rank, "code": 127, "message": message})
            return None

    # -- what happens meanwhile

    def _until(self, reached: Callable[[], bool], limit: float | None = None) -> bool:
        """Handles what comes until a condition holds; false when the gang is stopped or the time is up first."""
        return self.loop.until(lambda: self.stop is not None or reached(), limit) and self.stop is None

    def told_to_end(self) -> None:
        """Stops the gang. Where a batch system may mean all of it, the supervisor asks what is meant and how long it has."""
        if self.stop is not None:
            return
        if self.spot.patience is None:
            self._stop_as_told()
        else:
            self.meeting.announce("told", {"node": self.spot.index})
            self.loop.later(min(WORD_LIMIT, self.spot.patience / 2), self._stop_as_told)

    @property
    def _told(self) -> bool:
        """Whether the end of a rank says nothing any more: it may have had the signal that an agent was told to end with."""
        return "told" in self.meeting.topics and self.meeting.get("told") is not None

    def _stop_as_told(self) -> None:
        if self.stop is None:
            self._stop_all("terminated", f"node {self.spot.index} was told to end (SIGTERM)", self.spot.patience)

    def hear(self) -> None:
        """Takes in what the others published."""
        for topic in self.meeting.news():
            if topic == "stop":
                self.stop = self.stop or self.meeting.get("stop")
            elif self.spot.index == 0 and topic.startswith("failed.") and topic != "failed.0":
                self._learn(self.meeting.get(topic) or {})
        if self.spot.index == 0 and self.done and self.stop is None and not self._told and self._all_done():
            self._stop_all("finished", "all ranks are done", LEFTOVER_GRACE)

    def _all_done(self) -> bool:
        return self.plan is not None and self.meeting.counts.get("done") == self.plan.runners

    def ended(self, process: Running) -> None:
        if process.service:
            if process.name == "storage" and process.signal:
                self.loop.later(STORAGE_PAUSE, self._wait_for_a_knock)
            elif process.name in ("storage", "sshd") and process.failed:  # ranks would wait for it for ever
                kind = "signal" if process.signal else "start"
                told = {"rank": -1, "code": process.code, "signal": process.signal, "message": transfers.why(self.dir, process)}
                self._fail(dict(told, kind=kind, process=process.name))
            return
        self.events.add("exit", process=process.name, rank=process.rank, code=process.code, signal=process.signal)
        if process.failed and not (self.done and process.rank < 0):
            told = {"kind": "signal" if process.signal else "exit", "process": process.name, "rank": process.rank}
            told.update(code=process.code, signal=process.signal)
            rank = read_object(self.dir.failure) if process.name == "reception" else None
            if rank:  # which the reception has started, and with which it ended
                told.update(rank)
                process.stopped = True
            killed = told["signal"] == signal.SIGKILL or told["code"] == 128 + signal.SIGKILL
            ran_out = self.memory.ran_out()
            self._fail(dict(told, oom=killed and ran_out, oom_before=not killed and ran_out and self.memory.kept_by_kernel))
        self._check_done()

    def _check_done(self) -> None:
        """Tells the others when all ranks of this node have ended well. A node of helpers alone is never done."""
        ranks = [process for process in self.processes.all if process.rank >= 0]
        if self.started and ranks and not self.done and self.stop is None and all(rank.code == 0 for rank in ranks):
            self.done = True
            self.meeting.publish(self.spot.index, "done", {})

    def _fail(self, failure: dict[str, Any]) -> None:
        """Something of this node failed: node 0 has to learn of it."""
        failure = dict(failure, node=self.spot.index)
        if self.spot.index == 0:
            self.hear()  # what others published before this counts as learned before this
            self._learn(failure)
        elif not self.failed:
            self.meeting.publish(self.spot.index, "failed", failure)
        self.failed = True

    def _learn(self, failure: dict[str, Any]) -> None:
        """Node 0: notes a failure in the order of learning and, at the first, stops the gang."""
        self.events.add("failure", **failure)
        self.failures += 1
        if self.failures > 1:
            return
        reason = "{} failed".format(failure.get("process", "a node"))

        def stop() -> None:
            if self.stop is None and not self._told:
                self._stop_all("failure", reason)

        self.loop.later(SETTLE, stop)  # others that fail as well are heard before a signal ends them

    def _check_memory(self) -> None:
        used = self.memory.too_much(self.processes)
        if used is not None and self.stop is None:
            self._fail({"kind": "memory", "used": used, "limit": self.job.memory})

    def _check_silence(self) -> None:
        if self._silence.over() and self.stop is None:
            self._stop_all("silent", f"nothing was written for {duration(self._silence.limit)} (silent_limit)")

    def _keep_time(self) -> None:
        """Ends the ranks in the place of a supervisor that is stopped: the devices are not used for ever."""
        if self.stop is None:
            self._stop_all("time_limit", over_time(self.job.time_limit or 0))

    def _stop_all(self, cause: str, reason: str, grace: float | None = None) -> None:
        limit = self.job.grace if grace is None else min(grace, self.job.grace)
        self.meeting.announce("stop", {"cause": cause, "reason": reason, "grace": limit, "node": self.spot.index})
        self.stop = self.meeting.get("stop")

    # -- ending

    def _end(self) -> None:
        stop = self.stop or {}
        self.loop.ending = True
        if stop.get("cause") == "silent":
            files, asked = watchdog.dump_stacks(self.processes, self.dir.stacks)
            self.events.add("stacks", files=files, in_logs=asked)
        if self.processes.others(but_services=True):
            ranks_alone = self.job.framework in LAUNCHERS and stop.get("cause") not in ("finished", "failure")
            ending.ask(self.processes, ranks_alone, self.spot.index == 0)
            ending.wait_for_nobody(self.loop, time.monotonic() + float(stop.get("grace", 0)))
        self.measuring.ended()
        for process in [*self.processes.kill_all(), *self.helpers.kill_all()]:
            self.ended(process)
        self.sessions.close()
        if self.plan is not None:
            for path, reason in result_files.irregular(self.dir):
                self.events.add(result_files.REFUSED, path=path, reason=reason)
            self.measuring.harvest(self.plan)
            self.unsaved = self.outputs.save(self.plan, self.job.log_url)
        if stop.get("cause") == "finished" and not self.unsaved:
            staging.clear(self.dir.root + "/cache")
        write_json(
            self.dir.exit,
            {
                "node": self.spot.index,
                "cause": stop.get("cause"),
                "ended": time.time(),
                "unsaved": self.unsaved,
                "worlds": self.worlds.to_json(),
                "processes": [process.to_json() for process in self.processes.all if not process.service],
            },
        )
