"""Framework `horovod`: horovodrun on the first node starts the ranks over ssh."""

from __future__ import annotations

from muster.job import Job
from muster.plan.frameworks.base import Launcher
from muster.plan.world import World

# horovodrun gives all ranks the PATH of the first node; a login knows the directory of its own.
OWN_RANK = ("sh", "-c", 'exec "${MUSTER_RESULTS%/*}/bin/"$0 "$@"')


class Horovod(Launcher):
    def argv(self, job: Job, world: World, folder: str, program: tuple[str, ...]) -> tuple[str, ...]:
        # Names of nodes that do not resolve are reached by ssh, the first node too, so that all ranks start alike. The cache
        # is in the user's home and remembers for an hour what was true of another run.
        start = ("horovodrun", "-np", str(world.size), "--hostfile", self.hostfile(folder), "--disable-cache")
        network = ("--network-interface", "lo") if world.loopback else ()
        return (*start, *network, *OWN_RANK, self.rank_program, *program)
