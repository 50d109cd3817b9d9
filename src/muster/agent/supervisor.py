"""The supervisor of a run: holds its devices, starts its attempts, keeps its time limit, and writes how it ended.

It knows nothing of how a node is made: `Nodes.start` gives it processes to wait for, `Nodes.sweep` leaves none behind.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, List, Optional

from muster.agent import locks, namespace, system
from muster.agent.signals import Signals
from muster.agent.simulated import Nodes
from muster.agent.storing import Tools
from muster.devices import resolve
from muster.job import Job
from muster.runs import state
from muster.runs.explain import duration, signal_name
from muster.runs.files import Events, delete_tree, need_json, read_json, write_once
from muster.runs.layout import AttemptDir, RunDir
from muster.runs.logs import last_lines
from muster.runs.watch import Watch, readable

ABANDONED_GRACE = 5.0  # when nobody is left who would wait for the ranks
DEVICE_PAUSE = 2.0  # between two looks at the devices' own process lists
KILL_LIMIT = 10.0  # for an agent to end after its ranks' grace


class Supervisor:
    def __init__(self, path: str, code: str, contained: bool, command: Optional[int], tools: Tools) -> None:
        self.run = RunDir(path)
        self.job = Job.from_json(need_json(self.run.job))
        self.code = code
        self.contained = contained
        self.tools = tools
        self.command = command  # readable when the command that follows this run is gone
        self.events = Events(self.run.events)
        self.signals = Signals((signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        self.watch = Watch()
        self.watch.add(path)
        self.stop: Optional[Dict[str, Any]] = None  # why the run has to end, once it has to
        self.kill = False
        self.deadline: Optional[float] = None

    def carry_out(self) -> None:
        """The whole life of a run."""
        system.adopt_orphans()
        kind = resolve(self.job.device)
        held = self._hold_devices(kind)
        if held is None:
            self.events.add("ended", state="stopped", reason=(self.stop or {}).get("reason", ""))
        else:
            if self.job.time_limit:
                self.deadline = time.monotonic() + self.job.time_limit
            nodes = Nodes(self.run, self.job, self.code, kind, held.nodes, self._namespaces(), self.tools)
            self._attempts(nodes)
            held.close()
        state.conclude(self.run)

    def _namespaces(self) -> bool:
        reason = namespace.available(self.run.probe) if self.contained else "switched off"
        self.events.add("nodes", contained=not reason, reason=reason)
        return not reason

    def _hold_devices(self, kind: str) -> Optional[locks.Held]:
        queue = locks.Queue(kind, self.job.nodes, self.job.devices)
        said = ""
        try:
            self._look()
            while self.stop is None:
                held = queue.take()
                if held is not None:
                    return held
                if queue.reason != said:
                    said = queue.reason
                    self.events.add("waiting", reason=said)
                self._look()  # the drivers' tools have ended: the signal of that would end the wait at once
                if self.stop is None:
                    self._wait(DEVICE_PAUSE, queue.filenos())
                    self._look()
            return None
        finally:
            queue.close()

    def _attempts(self, nodes: Nodes) -> None:
        number = (self.run.attempt_numbers() or [0])[-1]
        while True:
            number += 1
            done = self._attempt(nodes, number)
            if not self._again(done, number):
                self.events.add("ended")
                return
            if self.stop is not None:  # it came between two attempts
                state = "failed" if self.stop["cause"] == "time_limit" else "stopped"
                self.events.add("ended", state=state, reason=self.stop["reason"])
                return
            self.events.add("retry", attempt=number, reason=done["reason"])

    def _again(self, done: Dict[str, Any], number: int) -> bool:
        """Whether a new attempt follows: a decision from the outcome alone."""
        if done["state"] != "failed" or done["cause"] == "time_limit" or number > self.job.retries:
            return False
        failure = done["failure"] or {}
        if failure.get("kind") in ("plan", "output"):  # it would fail again, or the training is done
            return False
        if not self.job.retry_on:
            return True
        code = 128 + failure["signal"] if failure.get("signal") else failure.get("code")  # as a shell counts
        return done["cause"] in self.job.retry_on or code in self.job.retry_on

    # -- one attempt

    def _attempt(self, nodes: Nodes, number: int) -> Dict[str, Any]:
        attempt = self.run.attempt(number)
        os.makedirs(attempt.meet)
        os.makedirs(attempt.nodes)
        self.watch.add(attempt.meet)
        self.events.add("attempt", attempt=number)
        pids, tie = nodes.start(number)
        try:
            self._follow(attempt, {pid: index for index, pid in enumerate(pids)})
        finally:
            os.close(tie)
            nodes.sweep()
            delete_tree(attempt.ssh)
        self.events.add("attempt-ended", attempt=number)
        record = state.read(self.run)
        return state.outcome(record, record.attempts[-1])

    def _follow(self, attempt: AttemptDir, agents: Dict[int, int]) -> None:
        """Waits for all agents to end; tells them to stop when somebody or something asks for it."""
        killed_after: Optional[float] = None
        told_kill = False
        while agents:
            self._look()  # before reaping: the signal of an agent that ends in between has to wake the wait below
            for pid, status in _reap(list(agents)):
                self._agent_ended(attempt, agents.pop(pid), status)
            if self.stop is not None:
                self._tell(attempt, self.stop)
            if self.kill and not told_kill:
                write_once(attempt.meet + "/kill", {})
                told_kill = True
                killed_after = time.monotonic() + KILL_LIMIT
            stop = read_json(attempt.meet + "/stop") if killed_after is None else None
            if stop:
                killed_after = time.monotonic() + float(stop["grace"]) + KILL_LIMIT
            if killed_after is not None and time.monotonic() >= killed_after:
                for pid in [pid for pid, node in agents.items() if self.kill or not _uploading(attempt, node)]:
                    os.kill(pid, signal.SIGKILL)
                killed_after = time.monotonic() + 1.0  # one that cannot die yet is looked at again
            if agents:
                self._wait(_until(self.deadline, killed_after))

    def _agent_ended(self, attempt: AttemptDir, node: int, status: int) -> None:
        if os.path.exists(attempt.node(node).exit):
            return
        if os.WIFSIGNALED(status):
            how = "was killed (%s)" % signal_name(os.WTERMSIG(status))
        else:
            said = last_lines(attempt.node(node).agent_log, 1) or ["it left no word"]
            how = "failed (code %d): %s" % (os.WEXITSTATUS(status), said[0])
        self.events.add("lost", attempt=attempt.number, node=node, reason=how)
        self._tell(attempt, {"cause": "lost", "reason": "the agent of node %d %s" % (node, how), "node": node})

    def _tell(self, attempt: AttemptDir, stop: Dict[str, Any]) -> None:
        if not os.path.exists(attempt.meet + "/stop"):
            write_once(attempt.meet + "/stop", dict({"grace": self.job.grace}, **stop))

    # -- what happens meanwhile

    def _look(self) -> None:
        """Takes in signals, requests to stop, the loss of the command, and the passing of time."""
        signals = self.signals.take() & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
        self.watch.drain()
        if not os.path.isdir(self.run.path):
            os._exit(1)  # somebody has deleted the record; agents and ranks end with this process
        asked = read_json(self.run.stop) if self.stop is None else None
        if asked:
            self._must_stop("stop", asked.get("reason", "stopped"))
        if not self.kill and os.path.exists(self.run.kill):
            self.kill = True
            self._must_stop("stop", (read_json(self.run.kill) or {}).get("reason", "stopped"))
        if signals:
            self._must_stop("terminated", "the supervisor was told to end (%s)" % signal_name(min(signals)))
        if self.command is not None and readable([self.command], 0):
            os.close(self.command)
            self.command = None
            grace = min(ABANDONED_GRACE, self.job.grace)
            self._must_stop("abandoned", "the command that followed this run is gone", grace)
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.deadline = None
            self._must_stop("time_limit", "it took longer than its time limit of %s" % duration(self.job.time_limit or 0))

    def _must_stop(self, cause: str, reason: str, grace: Optional[float] = None) -> None:
        if self.stop is None:
            self.stop = {"cause": cause, "reason": reason, "grace": self.job.grace if grace is None else grace}
            self.events.add("stopping", cause=cause, reason=reason)

    def _wait(self, timeout: Optional[float], others: Optional[List[int]] = None) -> None:
        readers = [self.signals.fileno(), *(others or [])]
        if self.command is not None:
            readers.append(self.command)
        if self.watch.polling:
            timeout = min(0.1, timeout or 0.1)
        else:
            readers.append(self.watch.fileno())
        readable(readers, timeout)


def _uploading(attempt: AttemptDir, node: int) -> bool:
    """Whether a node saves its outputs, which takes the time that it takes."""
    return os.path.lexists("%s/uploading.%d" % (attempt.meet, node))


def _until(*moments: Optional[float]) -> Optional[float]:
    given = [moment for moment in moments if moment is not None]
    return max(0.0, min(given) - time.monotonic()) if given else None


def _reap(pids: List[int]) -> List[Any]:
    """The agents that ended, with their statuses; whatever else this process adopted is collected too."""
    ended: List[Any] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid in pids:
            ended.append((pid, status))
