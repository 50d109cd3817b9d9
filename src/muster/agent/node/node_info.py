"""What the engine knows of a node before its agent starts, and the facts that come of it."""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

from muster.plan import Device, Facts


@dataclass(frozen=True)
class Spot:
    """A node as its engine made it."""

    index: int
    host: str
    address: str
    device: str
    devices: Tuple[Device, ...]
    cpus: int  # CPUs that its processes share
    contained: bool  # whether the node is a namespace
    seen: int = 0  # the agent's process id as the machine sees it
    keeper: Optional[socket.socket] = None  # to the process that starts helpers, where the node is a namespace
    user: str = ""
    patience: Optional[float] = None  # seconds between a signal to the agent and its death, where somebody counts them
    launcher: Tuple[str, ...] = ()
    reception: Tuple[str, ...] = ()

    def facts(self, ports: Sequence[int], ssh: Tuple[int, ...]) -> Facts:
        """What the node tells the others about itself."""
        return Facts(
            self.index,
            self.host,
            self.address,
            self.device,
            self.devices,
            tuple(ports),
            self.cpus,
            self.seen or os.getpid(),
            self.user,
            os.getuid(),
            os.getgid(),
            shutil.which("nvidia-smi") is not None,
            ssh,
            self.launcher,
            self.reception,
        )
