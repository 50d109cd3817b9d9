"""From a job and its nodes to what each node has to do: pure functions, no I/O, no clock."""

from muster.plan.build import build, runners, world_files
from muster.plan.node import Gate, NodePlan, Places, PlanError, Process, Transfer
from muster.plan.world import Device, NodeInfo, World, assemble

__all__ = [
    "Device",
    "Gate",
    "NodeInfo",
    "NodePlan",
    "Places",
    "PlanError",
    "Process",
    "Transfer",
    "World",
    "assemble",
    "build",
    "runners",
    "world_files",
]
