"""The nodes that Slurm gave to a job, and the files that the Slurm engine adds to a run directory."""

from __future__ import annotations

import socket
from typing import Any

from muster.dataclass import asdict, dataclass
from muster.engines.slurm.node.parsing import KILL_WAIT, SlurmNode
from muster.records.layout import AttemptDir

BATCH_LOG = "slurm.log"  # in the run directory: the output of the batch script, and what Slurm adds to it
MARGIN = 2.0  # seconds that agents need for themselves after their ranks are gone


@dataclass(frozen=True)
class Allocation:
    """The nodes of an attempt, in the order of their indexes, and how long Slurm waits before it kills."""

    nodes: tuple[SlurmNode, ...] = ()
    kill_wait: float = KILL_WAIT

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Allocation:
        return cls(tuple(SlurmNode(**node) for node in data["nodes"]), data["kill_wait"])


def allocation_file(attempt: AttemptDir) -> str:
    return attempt.path + "/allocation.json"


def srun_log(attempt: AttemptDir) -> str:
    return attempt.path + "/srun.log"


def resolved(address: str) -> str:
    """A node's address as a number: ranks may not be able to look names up."""
    try:
        return socket.gethostbyname(address)
    except OSError:
        return address
