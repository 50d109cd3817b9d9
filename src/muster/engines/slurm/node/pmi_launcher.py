"""MPI through srun: the launcher that starts a task for each rank, and the names by which tasks find the agents of their nodes.

A rank that were such a task itself would know nothing of its node: its directories, its environment, the grace at its end.
So a task only hands its place in the PMI of srun to the PMI proxy of its node, which starts the rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from muster.agent.tools import Tools
from muster.job import Job
from muster.records.layout import AttemptDir

# The tasks hardly do anything: they take no resources from the step of the agents, which has all of the job.
FIXED = "--overlap --overcommit --mem=0 --gres=none --cpu-bind=none --distribution=block --wait=0 --input=none --export=NONE"
FIXED += " --kill-on-bad-exit=0"  # the agents end the ranks, and with them their tasks


def kind(job: Job) -> str:
    """The PMI that srun is asked for; nothing where the ranks are started in another way."""
    return job.slurm.mpi if job.framework == "mpi" and job.slurm else ""


def address(run: str, attempt: int, node: str) -> str:
    """The abstract socket of a node's PMI proxy: tasks can compute it, and it is short whatever the names are."""
    return "muster-" + hashlib.sha256((f"{run}/{attempt}/{node}").encode()).hexdigest()[:32]


def launcher(job: Job, environment: Mapping[str, str], task: list[str]) -> tuple[str, ...]:
    """The argv that starts a task for each rank. It runs with the environment of a rank, which has no variables of Slurm."""
    found = ["env", "SLURM_CONF=" + environment["SLURM_CONF"]] if environment.get("SLURM_CONF") else []
    counts = [f"--nodes={job.nodes}", f"--ntasks={job.ranks}", f"--ntasks-per-node={job.devices}"]
    return (*found, "srun", "--jobid=" + environment["SLURM_JOB_ID"], "--mpi=" + kind(job), *counts, *FIXED.split(), *task)


def task(tools: Tools, run: str, attempt: int) -> list[str]:
    """The argv of a task, less that of the rank."""
    return [tools.python, "-I", "-S", tools.archive, "engine", "slurm", "pmi-task", run, str(attempt)]


def proxy(tools: Tools, name: str, attempt: AttemptDir, node: int) -> tuple[str, ...]:
    """The argv of a node's PMI proxy."""
    return (tools.python, "-I", "-S", tools.archive, "engine", "slurm", "pmi-proxy", name, attempt.path, str(node))
