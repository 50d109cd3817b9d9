"""From a job and the facts of its nodes to what each node has to do: pure functions, no I/O, no clock."""

from muster.plan.build import NodePlan, Places, PlanError, Process, build, shared_files
from muster.plan.frameworks import of
from muster.plan.world import Device, Facts, Node, World, assemble

__all__ = [
    "Device",
    "Facts",
    "Node",
    "NodePlan",
    "Places",
    "PlanError",
    "Process",
    "World",
    "assemble",
    "build",
    "of",
    "shared_files",
]
