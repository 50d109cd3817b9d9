"""From a job and its nodes to what each node has to do: pure functions, no I/O, no clock."""

from muster.plan.build import build, runners, world_files
from muster.plan.frameworks import of
from muster.plan.node import File, Gate, NodePlan, Places, PlanError, Process, Transfer
from muster.plan.world import Device, Node, NodeInfo, World, assemble

__all__ = [
    "Device",
    "File",
    "Gate",
    "Node",
    "NodeInfo",
    "NodePlan",
    "Places",
    "PlanError",
    "Process",
    "Transfer",
    "World",
    "assemble",
    "build",
    "of",
    "runners",
    "world_files",
]
