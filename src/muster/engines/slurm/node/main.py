"""The entry of the Slurm engine's node side: its site, and the programs that it starts on nodes."""

from __future__ import annotations

from muster.agent.sandbox import agent_process
from muster.agent.supervisor.site import Assignment, Site
from muster.records.files import Events


def site(assignment: Assignment, events: Events) -> Site:
    """Returns the site of a supervisor that runs in the batch script of a Slurm job."""
    from muster.engines.slurm.node.site import SlurmSite

    agent_process.write_to(assignment.run.log)  # the output of the batch script is Slurm's log
    return SlurmSite(assignment)


def main(words: list[str]) -> int:
    """Runs one of the programs: the agent of a node, the PMI proxy of a node, or a task of srun."""
    word, *rest = words
    if word == "agent":
        from muster.engines.slurm.node.entry import run_agent

        run_agent(rest[0], int(rest[1]), dict(zip(rest[2::2], rest[3::2])))
    if word == "pmi-proxy":
        from muster.engines.slurm.node.pmi_proxy import serve
        from muster.records.layout import AttemptDir

        serve(rest[0], AttemptDir(rest[1]), int(rest[2]))
    if word == "pmi-task":
        from muster.engines.slurm.node.pmi_proxy import stand_for

        return stand_for(rest[0], int(rest[1]), rest[2:])
    raise SystemExit(f"unknown: {word}")
