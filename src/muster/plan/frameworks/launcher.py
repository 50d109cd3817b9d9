"""Frameworks whose own launcher starts the ranks, from the first node and over ssh."""

from __future__ import annotations

from muster.job import Job
from muster.plan.frameworks.base import Framework
from muster.plan.world import World


class Launcher(Framework):
    rank_program = "muster-rank"  # gives a rank its number, its directory and its log; see plan/ssh.py

    def files(self, job: Job, world: World, folder: str) -> dict[str, str]:
        # No blank line, which horovodrun does not survive.
        hosts = "".join(f"node-{node.index} slots={world.per_node}\n" for node in world.workers)
        return {self.hostfile(folder): hosts}

    def hostfile(self, folder: str) -> str:
        return folder + "/hostfile"
