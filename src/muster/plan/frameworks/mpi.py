"""Framework `mpi`: Open MPI's mpirun on the first node starts the ranks over ssh, or what a batch system has instead of it."""

from __future__ import annotations

from muster.job import Job
from muster.plan.frameworks.base import Launcher
from muster.plan.node import Process
from muster.plan.world import Node, World

# Simulated nodes meet on loopback addresses. Some have one host name, from which Open MPI would conclude that their ranks
# have memory in common (btl) and its daemons a file (vmhole), and all have the same CPUs, to which it would bind the ranks of
# each node in the same order.
SIMULATED = (
    *("--mca", "oob_tcp_if_include", "lo"),
    *("--mca", "btl_tcp_if_include", "lo"),
    *("--mca", "btl", "self,tcp"),
    *("--mca", "rtc_hwloc_vmhole", "none"),
    *("--bind-to", "none"),
)


class Mpi(Launcher):
    def files(self, job: Job, world: World, folder: str) -> dict[str, str]:
        return {} if world.master.info.launcher else super().files(job, world, folder)

    def shared(self, job: Job, world: World, folder: str) -> dict[str, str]:
        if world.master.info.uid != 0:
            return {}
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def argv(self, job: Job, world: World, folder: str, program: tuple[str, ...]) -> tuple[str, ...]:
        if world.master.info.launcher:
            return (*world.master.info.launcher, *program)
        start = ("mpirun", "-np", str(world.size), "--hostfile", self.hostfile(folder))
        return (*start, *(SIMULATED if world.loopback else ()), self.rank_program, *program)

    def helpers(self, job: Job, world: World, node: Node, program: tuple[str, ...]) -> list[Process]:
        return [Process("reception", node.info.reception, {})] if node.info.reception else []
