"""Attempts, ranks and processes as people name them, or an error that says what there is instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.job import LAUNCHERS, Job

SHOWN = 8  # names in an error
# Every node may have one: `setup-1` is that of node 1.
EVERYWHERE = ("setup", "inputs", "outputs", "storage", "sshd", "sampler", "note", "harvest", "tensorboard", "jupyter")
# Processes that write for whoever looks for a fault: `run` does not show their logs.
BACKGROUND = ("scheduler", "storage", "sshd", "reception", "sampler", "note", "harvest", "tensorboard", "jupyter")


class RunNotFound(Exception):
    """A name that no run has, or that several have; a rank, process or attempt that a run does not have."""


def in_background(process: str) -> bool:
    """True if a process, by the name of its log, works in the background; one of several has a number."""
    return process in BACKGROUND or process.rpartition("-")[0] in BACKGROUND


def attempt_number(run: str, numbers: Sequence[int], attempt: int) -> int:
    """An attempt among those that a run has."""
    if attempt not in numbers:
        shown = f"attempt{'s' * (len(numbers) > 1)} {some(map(str, numbers))}" if numbers else "none yet"
        raise RunNotFound(f"{run} has no attempt {attempt}; it has {shown}")
    return attempt


def rank_log(run: str, job: Job, rank: int) -> str:
    """The name of a rank's log."""
    if not 0 <= rank < job.ranks:
        raise RunNotFound(f"{run} has no rank {rank}; it has {_ranks(job)}")
    return f"rank-{rank}" if job.framework in LAUNCHERS else job.programs[rank][0]


def process_log(run: str, job: Job, process: str, found: Iterable[str]) -> str:
    """The name of a process' log; `found` are the logs that there are."""
    name = f"{process}-0" if process in EVERYWHERE else process
    ranks = [name for name, _, _ in job.programs]
    others = [f"ps-{index}" for index in range(job.ps)]
    others += [f"setup-{node}" for node in range(job.nodes + job.ps) if job.setup]
    others += sorted({*found} - {*ranks, *others})
    if name not in ranks and name not in others:
        raise RunNotFound(f"{run} has no process `{process}`; it has {some([_ranks(job), *others])}")
    return name


def _ranks(job: Job) -> str:
    if job.alone and job.framework not in LAUNCHERS:
        return "main"
    return f"ranks 0 to {job.ranks - 1}" if job.ranks > 1 else "rank 0 alone"


def some(names: Iterable[str]) -> str:
    """The first of some names, for an error."""
    shown = list(names)
    return ", ".join(shown[:SHOWN]) + (", ..." if len(shown) > SHOWN else "")
