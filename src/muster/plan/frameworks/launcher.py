"""What frameworks have in common whose own launcher starts the ranks, from the first node and over ssh."""

from __future__ import annotations

from typing import Dict

from muster.job import Job
from muster.plan.frameworks.base import Framework
from muster.plan.world import World


class Launcher(Framework):
    rank_program = "muster-rank"  # gives a rank its number, its directory and its log; see plan/ssh.py

    def files(self, job: Job, world: World, attempt: str) -> Dict[str, str]:
        # No blank line, which horovodrun does not survive.
        hosts = "".join("node-%d slots=%d\n" % (node.index, world.per_node) for node in world.workers)
        return {self.hostfile(attempt): hosts}

    def hostfile(self, attempt: str) -> str:
        return attempt + "/hostfile"
