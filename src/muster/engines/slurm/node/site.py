"""The nodes of a Slurm job: machines that Slurm gave, each with an agent, all started by one srun."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time

from muster.agent.node import environment
from muster.agent.supervisor.site import Assignment, Cut, Farewell, Site, Verdict
from muster.channel import heartbeat
from muster.channel.base import SupervisorChannel
from muster.engines.slurm.node import client
from muster.records import submissions
from muster.records.failure_text import duration, signal_name
from muster.records.files import is_there, read_object, write_json
from muster.records.layout import AttemptDir
from muster.records.logs import last_lines

TRIES = 3
PAUSE = 5.0  # between two questions to Slurm while there is nothing to do
STEP_LIMIT = 30.0  # for a step to be gone
NEAR = 120.0  # seconds beside the grace in which a signal is the warning before the end of the job's time


class Allocated(Site):
    """Starts agents on the nodes of the job that this process is the batch script of."""

    starts_again = True  # after a requeue or a preemption; what it was, only Slurm knows
    pause = heartbeat.PAUSE

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.job_id = os.environ["SLURM_JOB_ID"]
        self.submission = int(os.environ.get(submissions.VARIABLE, "1"))
        self.restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        self.allocation = client.Allocation((), client.KILL_WAIT)
        self._silent: set[int] = set()  # nodes of which nothing is heard any more
        self._refused = False  # whether the site forbids to start the job again
        self._before = len(_read(assignment.run.batch_log))  # what was said of earlier starts

    def enter(self) -> bool:
        if self.submission > 1:
            return submissions.claim(self.assignment.run, self.submission, self.job_id, "")
        return submissions.holds(self.assignment.run, self.submission, self.job_id)

    def ready(self) -> bool:
        try:
            names = client.ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()
            wait = client.kill_wait(client.ask("scontrol", "show", "config"))
        except client.SlurmError as error:
            self.reason = f"waiting for Slurm: {error}"
            return False
        shown = {node.name: node.address for node in _nodes(names)}
        nodes = tuple(client.Machine(name, client.resolved(shown.get(name, name))) for name in names)
        self.allocation = client.Allocation(nodes, wait)
        return True

    def start(self, attempt: AttemptDir) -> dict[int, tuple[int, ...]]:
        write_json(attempt.allocation, self.allocation.to_json())
        self._silent = set()
        argv = client.srun(self.assignment.count, os.environ, self._agent(attempt))
        log = os.open(attempt.srun_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment.given(),
                start_new_session=True,
            )
        finally:
            os.close(log)
        started.returncode = 0  # reaped by the supervisor, not by subprocess
        return {started.pid: tuple(range(self.assignment.count))}

    def _agent(self, attempt: AttemptDir) -> list[str]:
        assignment = self.assignment
        words = ["node", assignment.run.path, str(attempt.number), "--code", assignment.code]
        words += ["--python", assignment.tools.python]
        if not assignment.namespaces:
            words += ["--namespaces", "off"]
        return client.agent(sys.executable, assignment.tools.archive, words)

    def gone(self, attempt: AttemptDir, channel: SupervisorChannel) -> dict[int, str]:
        tasks = client.ended_tasks(_read(attempt.srun_log))
        found = {node: self._how(attempt, node, how) for node, how in tasks.items()}
        self._silent |= channel.silent() - set(tasks)
        found.update({node: f"({self.allocation.nodes[node].name}) is not heard of any more" for node in self._silent})
        return found

    def last_words(self, attempt: AttemptDir, node: int, status: int) -> str:
        lines = [line for line in _read(attempt.srun_log).splitlines() if "error: " in line]
        killed = f"srun was killed ({signal_name(os.WTERMSIG(status))})" if os.WIFSIGNALED(status) else "srun left no word"
        return self._how(attempt, node, lines[-1].strip() if lines else killed)

    def _how(self, attempt: AttemptDir, node: int, srun: str) -> str:
        """How a node ended: in the words of its agent where it has left some, else in those of srun."""
        name = self.allocation.nodes[node].name
        own = client.own_words(_read(attempt.srun_log), name)
        said = last_lines(attempt.node(node).agent_log, 1) if own is None and "exit code" in srun else []
        return f"({name}) failed: {own or (said[0] if said else srun)}"

    def kill(self, pid: int) -> None:
        """Has srun kill its tasks, which would outlive it."""
        os.kill(pid, signal.SIGTERM)

    def sweep(self, attempt: AttemptDir) -> None:
        """Kills the job step where srun has died and left it behind."""
        if all(is_there(attempt.node(node).exit) for node in range(self.assignment.count)):
            return
        deadline = time.monotonic() + (0.0 if self._silent else STEP_LIMIT)
        while self._kill_steps() and time.monotonic() < deadline:
            time.sleep(1.0)

    def _kill_steps(self) -> bool:
        """Whether there are steps left to wait for."""
        try:
            shown = client.ask("squeue", "--noheader", "--steps", "--jobs", self.job_id, "--format=%i").split()
            steps = [step for step in shown if step.rpartition(".")[2].isdigit()]
            if steps:
                client.ask("scancel", "--quiet", "--signal=KILL", *steps)
            return bool(steps)
        except client.SlurmError:
            return False  # the job's own end will end them

    def farewell(self, signal: str) -> Farewell:
        """Asks Slurm: a job that it warns still runs, before the end of its time or a preemption; one that it ends does not."""
        meant = client.meaning_of(self._ends()) or self._meaning(signal)
        grace = self.assignment.job.grace
        left = max(0.0, meant.seconds + self.allocation.kill_wait - client.MARGIN)
        short = f"; Slurm leaves its ranks {duration(left)} of their grace of {duration(grace)}" if left < grace else ""
        unasked = meant.cause == "time_limit" and not self.assignment.job.time_limit
        return Farewell(meant.cause, meant.words + short + "; set `time_limit` to ask for more" * unasked, left)

    def _meaning(self, signal: str) -> client.Meaning:
        """What a signal means by what Slurm shows of the job."""
        shown = self._shown()
        grace_time = _grace_time(shown.get("Partition", "")) if shown.get("EndTime") == "Unknown" else math.inf
        return client.meaning(shown, signal, time.time(), NEAR + self.assignment.job.grace, grace_time)

    def _ends(self) -> str:
        """Why Slurm ends the job, if it has said so since this start."""
        return client.ends(_read(self.assignment.run.batch_log)[self._before :], self.job_id)

    def _shown(self) -> dict[str, str]:
        """What Slurm shows of the job. It is asked more than once: much hangs on the answer."""
        for _ in range(TRIES):
            try:
                return client.fields(client.ask("scontrol", "--oneliner", "show", "job", self.job_id))
            except client.SlurmError:
                time.sleep(1.0)
        return {}

    def leave(self, cause: str, reason: str) -> None:
        """Goes back into the queue, where Slurm does not see to that: a job that ends by itself is over for it."""
        if cause == "terminated" and not self._ends().startswith("NODE FAILURE"):
            return  # somebody cancelled the job, or wants it requeued
        for _ in range(TRIES):
            if self._comes_back() or self._requeue():
                return
            if self._refused and self._submit_again(reason):
                return
            time.sleep(PAUSE)

    def _comes_back(self) -> bool:
        """Whether Slurm starts the job again by itself."""
        shown = self._shown()
        return shown.get("JobState") == "PENDING" or int(shown.get("Restarts") or 0) > self.restarts

    def _requeue(self) -> bool:
        """Asks Slurm to start the job again, and notes a refusal: that of no answer at all may have been done."""
        try:
            client.ask("scontrol", "requeue", self.job_id)
            return True
        except client.NoAnswer:
            return False
        except client.SlurmError:
            self._refused = True
            return False

    def _submit_again(self, reason: str) -> bool:
        """Submits the run as a new job, in which it goes on; whoever else has done that was first."""
        run, number = self.assignment.run, self.submission + 1
        try:
            job = client.submit(run.script, {**environment.given(), submissions.VARIABLE: str(number)})
            if not submissions.claim(run, number, job, reason):
                client.ask("scancel", job)
            return True
        except client.SlurmError:
            return False

    def verdict(self, attempt: AttemptDir) -> Verdict | None:
        """Machines that are gone, by Slurm's word or because they are silent; a step that was killed for its memory."""
        log = _read(attempt.srun_log)
        memory = client.over_memory(log)
        if memory is not None:
            name, words = memory
            return Verdict("oom", f"{self._who(attempt, name)} {words}, and was killed for it; raise `memory`")
        names = [node["name"] for node in read_object(attempt.allocation).get("nodes", [])]
        states = {node.name: node.state for node in _nodes(names)}
        gone = dict.fromkeys(client.unreached(log), "could not be reached")
        gone.update({names[node]: "is not heard of any more" for node in self._silent})
        gone.update({name: "does not respond" for name in names if _is_mute(states.get(name, "")) and name not in gone})
        gone.update({name: "is down" for name in names if _is_down(states.get(name, ""))})
        return Verdict("lost", ", ".join(f"{name} {gone[name]}" for name in names if name in gone)) if gone else None

    def _who(self, attempt: AttemptDir, name: str) -> str:
        """The ranks of a node in words; nothing more than a node where Slurm does not say which."""
        node = next((node for node, machine in enumerate(self.allocation.nodes) if machine.name == name), None)
        if node is None:
            return "a node"
        ranks = [str(rank) for _, rank, place in self.assignment.job.programs if place == node and rank >= 0]
        who = "rank{} {} on ".format("s" * (len(ranks) > 1), ", ".join(ranks)) if ranks else ""
        return f"{who}node {node} ({name})"

    def explain_cut(self, attempt: AttemptDir) -> Cut:
        later = submissions.later(self.assignment.run)
        words = later[-1]["reason"] if later and later[-1]["attempt"] == attempt.number else ""
        verdict = self.verdict(attempt)
        down = ": " + verdict.reason if verdict else ""
        return Cut((words or "Slurm started the job again after it was cut off") + down, heartbeat.last(attempt))


def _nodes(names: list[str]) -> list[client.Machine]:
    """What Slurm shows of nodes; nothing where it does not answer, or users may not look at them."""
    try:
        return client.machines(client.ask("scontrol", "--oneliner", "show", "node", ",".join(names))) if names else []
    except client.SlurmError:
        return []


def _grace_time(partition: str) -> float:
    """How long the jobs of a partition may go on that are preempted, as far as Slurm tells."""
    try:
        return client.grace_time(client.ask("scontrol", "--oneliner", "show", "partition", partition))
    except client.SlurmError:
        return math.inf


def _is_down(state: str) -> bool:
    return "DOWN" in state or "FAIL" in state


def _is_mute(state: str) -> bool:
    return "NOT_RESPONDING" in state or state.endswith("*")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""
