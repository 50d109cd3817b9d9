"""The nodes of a Slurm job: machines that Slurm gave, each with an agent, all started by one srun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Dict, List, Tuple

from muster.agent import slurm
from muster.agent.site import Assignment, Farewell, Site
from muster.runs.explain import duration
from muster.runs.files import is_there, read_json, write_json
from muster.runs.layout import AttemptDir
from muster.runs.logs import last_lines

TRIES = 3
PAUSE = 5.0  # between two questions to Slurm while there is nothing to do
STEP_LIMIT = 30.0  # for a step to be gone: one on a dead node is there until Slurm knows of that
NEAR = 120.0  # seconds beside the grace in which a signal is the warning before the end of the job's time


class Allocated(Site):
    """Starts agents on the nodes of the job that this process is the batch script of."""

    starts_again = True  # after a requeue or a preemption; what it was, only Slurm knows

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.job_id = os.environ["SLURM_JOB_ID"]
        self.allocation = slurm.Allocation((), slurm.KILL_WAIT)

    def ready(self) -> bool:
        try:
            names = slurm.ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()
            wait = slurm.kill_wait(slurm.ask("scontrol", "show", "config"))
        except slurm.SlurmError as error:
            self.reason = "waiting for Slurm: %s" % error
            return False
        shown = {node.name: node.address for node in _nodes(names)}
        nodes = tuple(slurm.Machine(name, slurm.resolved(shown.get(name, name))) for name in names)
        self.allocation = slurm.Allocation(nodes, wait)
        return True

    def start(self, attempt: AttemptDir) -> Dict[int, Tuple[int, ...]]:
        write_json(attempt.allocation, self.allocation.to_json())
        argv = slurm.srun(self.assignment.count, os.environ, self._agent(attempt))
        log = os.open(attempt.srun_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True)
        finally:
            os.close(log)
        started.returncode = 0  # reaped by the supervisor, not by subprocess
        return {started.pid: tuple(range(self.assignment.count))}

    def _agent(self, attempt: AttemptDir) -> List[str]:
        assignment = self.assignment
        words = ["node", assignment.run.path, str(attempt.number), "--code", assignment.code]
        words += ["--python", assignment.tools.python]
        if not assignment.namespaces:
            words += ["--namespaces", "off"]
        return slurm.agent(sys.executable, assignment.tools.archive, words)

    def gone(self, attempt: AttemptDir) -> Dict[int, str]:
        tasks = slurm.ended_tasks(_read(attempt.srun_log))
        return {node: self._how(attempt, node, how) for node, how in tasks.items()}

    def last_words(self, attempt: AttemptDir, node: int, status: int) -> str:
        lines = [line for line in _read(attempt.srun_log).splitlines() if "error: " in line] or ["srun left no word"]
        return self._how(attempt, node, lines[-1].strip())

    def _how(self, attempt: AttemptDir, node: int, srun: str) -> str:
        """How a node ended: in the words of its agent where it has left some, else in those of srun."""
        name = self.allocation.nodes[node].name
        own = slurm.own_words(_read(attempt.srun_log), name)
        said = last_lines(attempt.node(node).agent_log, 1) if own is None and "exit code" in srun else []
        return "(%s) failed: %s" % (name, own or (said[0] if said else srun))

    def kill(self, pid: int) -> None:
        """Has srun kill its tasks, which would outlive it."""
        os.kill(pid, signal.SIGTERM)

    def sweep(self, attempt: AttemptDir) -> None:
        """Kills the job step where srun has died and left it behind."""
        if all(is_there(attempt.node(node).exit) for node in range(self.assignment.count)):
            return
        deadline = time.monotonic() + STEP_LIMIT
        while self._kill_steps() and time.monotonic() < deadline:
            time.sleep(1.0)

    def _kill_steps(self) -> bool:
        """Whether there are steps left to wait for."""
        try:
            shown = slurm.ask("squeue", "--noheader", "--steps", "--jobs", self.job_id, "--format=%i").split()
            steps = [step for step in shown if step.rpartition(".")[2].isdigit()]
            if steps:
                slurm.ask("scancel", "--quiet", "--signal=KILL", *steps)
            return bool(steps)
        except slurm.SlurmError:
            return False  # the job's own end will end them

    def farewell(self, signal: str) -> Farewell:
        """Asks Slurm: a job that it warns still runs, before the end of its time or a preemption; one that it ends does not."""
        meant = slurm.meaning(self._shown(), signal, time.time(), NEAR + self.assignment.job.grace)
        grace = self.assignment.job.grace
        left = max(0.0, meant.seconds + self.allocation.kill_wait - slurm.MARGIN)
        short = "; Slurm leaves its ranks %s of their grace of %s" % (duration(left), duration(grace)) if left < grace else ""
        return Farewell(meant.cause, meant.words + short, left)

    def _shown(self) -> Dict[str, str]:
        """What Slurm shows of the job. It is asked more than once: much hangs on the answer."""
        for _ in range(TRIES):
            try:
                return slurm.fields(slurm.ask("scontrol", "--oneliner", "show", "job", self.job_id))
            except slurm.SlurmError:
                time.sleep(1.0)
        return {}

    def leave(self, cause: str) -> None:
        """Goes back into the queue, unless Slurm ends the job anyway: one that ends by itself is over for Slurm."""
        if cause == "terminated":
            return
        try:
            slurm.ask("scontrol", "requeue", self.job_id)
        except slurm.SlurmError:
            while self._shown().get("JobState", "RUNNING") == "RUNNING":  # until Slurm ends it, and knows that it did
                time.sleep(PAUSE)

    def explain_loss(self, attempt: AttemptDir) -> str:
        names = [node["name"] for node in (read_json(attempt.allocation) or {"nodes": []})["nodes"]]
        return ", ".join("%s is %s" % (node.name, node.state.lower()) for node in _nodes(names) if _is_down(node.state))

    def explain_cut(self, attempt: AttemptDir) -> str:
        down = self.explain_loss(attempt)
        return "Slurm started the job again after it was cut off" + (": " + down if down else "")


def _nodes(names: List[str]) -> List[slurm.Machine]:
    """What Slurm shows of nodes; nothing where it does not answer, or users may not look at them."""
    try:
        return slurm.machines(slurm.ask("scontrol", "--oneliner", "show", "node", ",".join(names))) if names else []
    except slurm.SlurmError:
        return []


def _is_down(state: str) -> bool:
    return any(word in state for word in ("DOWN", "FAIL", "NOT_RESPONDING")) or state.endswith("*")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""
