"""Running a command beside a rank, wherever that is: in the namespaces, the directory and the environment of its process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from muster.engines import registry
from muster.engines.base import Beside
from muster.job import LAUNCHERS
from muster.launch.names import RunNotFound, rank_log
from muster.launch.run import Run
from muster.launch.start import packed_agent
from muster.linux import nsenter
from muster.records.ranks import RankView, held_place

_REASONS = {
    nsenter.ENDED: "rank {rank} of {run} has just ended; a command can only run beside a running rank",
    nsenter.REFUSED: "the node of rank {rank} cannot be entered: {detail}",
    nsenter.MISSING: "`{program}` was not found on the PATH of rank {rank}",
    nsenter.NO_PROGRAM: "`{program}` cannot be run; is it a program?",
}


def run(run: Run, rank: int, words: Sequence[str], collected: bool = False) -> tuple[int, str]:
    """Runs the command with this process' terminal, or with `collected` output; returns its exit code and that output.

    Where the rank is on this machine, this process stays in its node. Raises RunNotFound and EngineError.
    """
    found, engine = _process(run, rank), registry.engine_of(run.dir)
    if enter := engine.remote_shell(run.job, run.handle or "", found.node):
        raise RunNotFound(f"rank {rank} of {run.id} is on another machine, not here; `{enter}` goes there")
    agent = partial(packed_agent.build, run.dir.home)
    try:
        return engine.execute(Beside(run.id, run.job, found.node, found.pid or 0, tuple(words), collected, agent))
    except nsenter.NotStarted as why:
        text = _REASONS[why.reason].format(rank=rank, run=run.id, program=words[0], detail=why.detail)
        raise RunNotFound(text) from None


def _process(run: Run, rank: int) -> RankView:
    """The process beside which the command runs. Raises RunNotFound where it does not run."""
    name = rank_log(run.id, run.job, rank)
    if run.job.framework in LAUNCHERS:
        name = _launcher(run, rank)
    known = {entry.process: entry for entry in run.processes()}
    place = known.get(held_place(name))
    found = place if place and place.state == "running" else known.get(name)
    state = found.state if found else run.state
    if found is None or found.pid is None or state != "running":
        state = "its process is not known here" if found and state == "running" else state
        raise RunNotFound(f"rank {rank} of {run.id} is not running ({state}); a command can only run beside a running rank")
    return found


def _launcher(run: Run, rank: int) -> str:
    """The process beside which a command runs where only the launcher is known to the agents: it is on the first node."""
    node = rank // run.job.ranks_per_node
    if node > 0:
        hint = f"reach its node with `--rank 0 -- ssh node-{node}`"
        raise RunNotFound(f"rank {rank} of {run.id} was started by its launcher; {hint}")
    return run.job.programs[0][0]
