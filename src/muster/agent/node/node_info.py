"""What the engine knows of a node before its agent starts, and the facts that come of it."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from muster.plan import Device, Facts


@dataclass(frozen=True)
class Spot:
    """A node as its engine made it."""

    index: int
    host: str
    address: str
    device: str
    devices: tuple[Device, ...]
    cpus: int  # CPUs that its processes share
    contained: bool  # whether the node is a namespace
    seen: int = 0  # the agent's process id as the machine sees it
    keeper: socket.socket | None = None  # to the process that starts helpers, where the node is a namespace
    user: str = ""
    patience: float | None = None  # seconds between a signal to the agent and its death, where somebody counts them
    launcher: tuple[str, ...] = ()
    reception: tuple[str, ...] = ()

    def facts(self, ports: Sequence[int], ssh: tuple[int, ...]) -> Facts:
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
