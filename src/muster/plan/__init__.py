"""From a job and the facts of its nodes to what each node has to do: pure functions, no I/O, no clock."""

from muster.plan.build import build, shared_files
from muster.plan.frameworks import of
from muster.plan.node import File, Gate, NodePlan, Places, PlanError, Process, Transfer
from muster.plan.world import Device, Facts, Node, World, assemble

__all__ = [
    "Device",
    "Facts",
    "File",
    "Gate",
    "Node",
    "NodePlan",
    "Places",
    "PlanError",
    "Process",
    "Transfer",
    "World",
    "assemble",
    "build",
    "of",
    "shared_files",
]
