"""The site of a supervisor in a Slurm job: one srun starts an agent on each node of the allocation."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from muster.agent.node import environment
from muster.agent.supervisor.site import Assignment, Cut, NodeEnded, Site
from muster.channel import heartbeat
from muster.channel.base import SupervisorChannel
from muster.engines import EngineError
from muster.engines.slurm.node import job_end, job_step
from muster.engines.slurm.node.allocation import BATCH_LOG, MARGIN, Allocation, allocation_file, resolved, srun_log
from muster.engines.slurm.node.client import Client, NoAnswer
from muster.engines.slurm.node.parsing import SlurmNode
from muster.linux.proc import read_text
from muster.linux.signals import reap_children
from muster.linux.spawn import spawn
from muster.records import submissions
from muster.records.files import is_there, read_object, write_json
from muster.records.layout import AttemptDir
from muster.records.logs import last_lines
from muster.records.run_view import Cause, Stop
from muster.records.text.units import duration, signal_name

TRIES = 3
ANSWER_LIMIT = 10.0  # for a controller that is busy; without an answer the run goes on as well as it can
PAUSE = 5.0  # between two questions to Slurm while there is nothing to do
STEP_LIMIT = 30.0  # for a step to be gone
LINGER_LIMIT = 5.0  # for srun to end after its tasks
NEAR = 120.0  # seconds beside the grace in which a signal is the warning before the end of the job's time


class SlurmSite(Site):
    """Starts agents on the nodes of the job whose batch script this process is."""

    starts_again = True  # after a requeue or a preemption; what it was, only Slurm knows
    pause = heartbeat.PAUSE

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.client = Client(ANSWER_LIMIT)
        self.job_id = os.environ["SLURM_JOB_ID"]
        self.submission = int(os.environ.get(submissions.VARIABLE, "1"))
        self.restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        self.allocation = Allocation()
        self._silent: set[int] = set()  # nodes of which nothing is heard any more
        self._running: set[int] = set()  # nodes of which the supervisor does not know that they ended
        self._srun = 0  # the process id of srun; 0 while none runs
        self._refused = False  # whether the site forbids to start the job again
        self._before = len(self._batch_log())  # what was said of earlier starts

    def enter(self) -> bool:
        if self.submission > 1:
            return submissions.claim(self.assignment.run, self.submission, self.job_id, "")
        return submissions.holds(self.assignment.run, self.submission, self.job_id)

    def ready(self) -> bool:
        try:
            names = self.client.host_names(os.environ["SLURM_JOB_NODELIST"])
            wait = self.client.kill_wait()
        except EngineError as error:
            self.reason = f"waiting for Slurm: {error}"
            return False
        shown = {node.name: node.address for node in self.client.nodes(names)}
        nodes = tuple(SlurmNode(name, resolved(shown.get(name, name))) for name in names)
        self.allocation = Allocation(nodes, wait)
        if self.assignment.account is not None:
            from muster.agent.sandbox import account_checks

            account_checks.open_run(self.assignment, self.assignment.account)
        return True

    def start(self, attempt: AttemptDir) -> None:
        write_json(allocation_file(attempt), self.allocation.to_json())
        self._silent = set()
        argv = job_step.srun(self.assignment.count, os.environ, self._agent(attempt))
        log = os.open(srun_log(attempt), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._srun = spawn(argv, environment.own(), log)
        finally:
            os.close(log)
        self._running = set(range(self.assignment.count))

    def _agent(self, attempt: AttemptDir) -> list[str]:
        assignment = self.assignment
        words = ["engine", "slurm", "agent", assignment.run.path, str(attempt.number), "--code", assignment.code]
        words += ["--python", assignment.tools.python]
        if not assignment.namespaces:
            words += ["--namespaces", "off"]
        if assignment.account is not None:
            words += ["--account", assignment.account.to_text(), "--variables", "environment"]
        return job_step.agent(sys.executable, assignment.tools.archive, words)

    def ended(self, attempt: AttemptDir, channel: SupervisorChannel) -> list[NodeEnded]:
        """Those of which srun says so, those that are silent, and all of them once srun has ended."""
        status = self._srun_status()
        log = read_text(srun_log(attempt))
        tasks = job_step.ended_tasks(log)
        self._silent |= channel.silent() - set(tasks)
        if status is None:
            ended = self._running & {*tasks, *self._silent}
            words = tasks
        else:
            ended = self._running
            words = {**dict.fromkeys(ended, _last_error(log, status)), **tasks}
        self._running = self._running - ended
        return [NodeEnded(node, "" if channel.has_ended(node) else self._how(attempt, node, words)) for node in ended]

    def _srun_status(self) -> int | None:
        """The status of srun once it has ended."""
        status = dict(reap_children()).get(self._srun)
        self._srun = self._srun if status is None else 0
        return status

    def _how(self, attempt: AttemptDir, node: int, words: Mapping[int, str]) -> str:
        """How a node ended: in the words of its agent where it has left some, else in those of srun."""
        name = self.allocation.nodes[node].name
        if node in self._silent:
            return f"({name}) is not heard of any more"
        srun = words[node]
        own = job_step.own_words(read_text(srun_log(attempt)), name)
        said = last_lines(attempt.node(node).agent_log, 1) if own is None and "exit code" in srun else []
        return f"({name}) failed: {own or (said[0] if said else srun)}"

    def kill(self, nodes: Collection[int]) -> None:
        """Has srun kill its tasks, which would outlive it."""
        if self._srun and self._running <= set(nodes):
            os.kill(self._srun, signal.SIGTERM)

    def sweep(self, attempt: AttemptDir) -> None:
        """Ends srun where it outlives its tasks, and kills the job step where srun has died and left it behind."""
        self._end_srun()
        if all(is_there(attempt.node(node).exit) for node in range(self.assignment.count)):
            return
        deadline = time.monotonic() + (0.0 if self._silent else STEP_LIMIT)
        while self._kill_steps() and time.monotonic() < deadline:
            time.sleep(1.0)

    def _end_srun(self) -> None:
        deadline = time.monotonic() + LINGER_LIMIT
        while self._srun and self._srun_status() is None:
            if time.monotonic() > deadline:
                self.kill(self._running)
                deadline = time.monotonic() + 1.0
            time.sleep(0.02)

    def _kill_steps(self) -> bool:
        """Kills the steps of the job; false where none is left."""
        try:
            steps = self.client.steps(self.job_id)
            if steps:
                self.client.kill_steps(steps)
            return bool(steps)
        except EngineError:
            return False  # the job's own end will end them

    def farewell(self, signal: str) -> Stop:
        """Asks Slurm what the signal means: a job that is only warned, before its time limit or a preemption, still runs."""
        meant = job_end.meaning_of(self._ends()) or self._meaning(signal)
        grace = self.assignment.job.grace
        left = max(0.0, meant.grace + self.allocation.kill_wait - MARGIN)
        short = f"; Slurm leaves its ranks {duration(left)} of their grace of {duration(grace)}" if left < grace else ""
        unasked = meant.cause is Cause.TIME_LIMIT and not self.assignment.job.time_limit
        return Stop(meant.cause, meant.reason + short + "; set `time_limit` to ask for more" * unasked, left)

    def _meaning(self, signal: str) -> Stop:
        """The meaning of a signal, from what Slurm shows of the job."""
        shown, grace_time = self._shown(), math.inf
        if shown.get("EndTime") == "Unknown":
            with suppress(EngineError):  # Slurm does not respond
                grace_time = self.client.grace_time(shown.get("Partition", ""))
        return job_end.meaning(shown, signal, time.time(), NEAR + self.assignment.job.grace, grace_time)

    def _ends(self) -> str:
        """Why Slurm ends the job, if it has said so since this start."""
        return job_end.ends(self._batch_log()[self._before :], self.job_id)

    def _batch_log(self) -> str:
        return read_text(f"{self.assignment.run.path}/{BATCH_LOG}")

    def _shown(self) -> dict[str, str]:
        """Returns the fields of the job, after up to three calls; empty where it does not respond."""
        for _ in range(TRIES):
            try:
                return self.client.job(self.job_id)
            except EngineError:
                time.sleep(1.0)
        return {}

    def leave(self, cause: Cause, reason: str) -> None:
        """Requeues the job where Slurm does not: for Slurm, a job whose script exits has ended."""
        if cause is Cause.TERMINATED and not self._ends().startswith("NODE FAILURE"):
            return  # a user cancelled the job, or wants it requeued
        for _ in range(TRIES):
            if self._comes_back() or self._requeue():
                return
            if self._refused and self._submit_again(reason):
                return
            time.sleep(PAUSE)

    def _comes_back(self) -> bool:
        """True if Slurm starts the job again by itself."""
        shown = self._shown()
        return shown.get("JobState") == "PENDING" or int(shown.get("Restarts") or 0) > self.restarts

    def _requeue(self) -> bool:
        """Requeues the job, and notes a refusal; without an answer the job may have been requeued."""
        try:
            self.client.requeue(self.job_id)
            return True
        except NoAnswer:
            return False
        except EngineError:
            self._refused = True
            return False

    def _submit_again(self, reason: str) -> bool:
        """Submits the run as a new job, and cancels that one if another submission was recorded first."""
        run, number = self.assignment.run, self.submission + 1
        try:
            job = self.client.submit(read_text(run.script), {**environment.own(), submissions.VARIABLE: str(number)})
            if not submissions.claim(run, number, job, reason):
                self.client.cancel(job.partition(";")[0])
            return True
        except EngineError:
            return False

    def verdict(self, attempt: AttemptDir) -> Cut | None:
        """Nodes that are down, by Slurm's state or by their silence, or a step that was killed for its memory."""
        log = read_text(srun_log(attempt))
        if memory := job_step.over_memory(log):
            name, words = memory
            return Cut(f"{self._who(name)} {words}, and was killed for it; raise `memory`", Cause.OOM)
        names = [node["name"] for node in read_object(allocation_file(attempt)).get("nodes", [])]
        states = {node.name: node.state for node in self.client.nodes(names)}
        mute = [name for name, state in states.items() if "NOT_RESPONDING" in state or state.endswith("*")]
        down = [name for name, state in states.items() if "DOWN" in state or "FAIL" in state]
        gone = {
            **dict.fromkeys(mute, "does not respond"),
            **dict.fromkeys(job_step.unreached(log), "could not be reached"),
            **{names[node]: "is not heard of any more" for node in self._silent},
            **dict.fromkeys(down, "is down"),
        }
        return Cut(", ".join(f"{name} {gone[name]}" for name in names if name in gone)) if gone else None

    def _who(self, name: str) -> str:
        """The ranks of a node in words; `a node` where Slurm does not name it."""
        node = next((node for node, machine in enumerate(self.allocation.nodes) if machine.name == name), None)
        if node is None:
            return "a node"
        ranks = [str(rank) for _, rank, place in self.assignment.job.programs if place == node and rank >= 0]
        who = "rank{} {} on ".format("s" * (len(ranks) > 1), ", ".join(ranks)) if ranks else ""
        return f"{who}node {node} ({name})"

    def explain_cut(self, attempt: AttemptDir) -> Cut:
        later = submissions.later(self.assignment.run)
        words = later[-1].reason if later and later[-1].attempt == attempt.number else ""
        verdict = self.verdict(attempt)
        down = ": " + verdict.reason if verdict else ""
        reason = (words or "Slurm started the job again after it was cut off") + down
        return Cut(reason, until=heartbeat.last(attempt))


def _last_error(log: str, status: int) -> str:
    """Returns the last error of srun, or how it ended."""
    lines = [line for line in log.splitlines() if "error: " in line]
    killed = f"srun was killed ({signal_name(os.WTERMSIG(status))})" if os.WIFSIGNALED(status) else "srun left no word"
    return lines[-1].strip() if lines else killed
