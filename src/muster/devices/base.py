"""What the modules for accelerators share."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import List, Optional, Sequence


@dataclass(frozen=True)
class Found:
    """A device of this machine."""

    id: str  # the number its driver gives it
    name: str = ""
    unique: str = ""  # an id that no other device has; the lock on the device carries it
    ip: str = ""


class DriverError(Exception):
    """A driver's tool that is there and does not work."""


def ask(argv: Sequence[str], limit: float = 5.0) -> str:
    """What a driver's tool prints; nothing where there is no such tool."""
    tool = shutil.which(argv[0])
    if not tool:
        return ""
    environment = dict(os.environ, LC_ALL="C")
    try:
        done = subprocess.run(
            [tool, *argv[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=limit,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DriverError("%s does not work: %s" % (argv[0], error)) from None
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        words = (said.strip().splitlines() or ["code %d" % done.returncode])[-1]
        raise DriverError("%s does not work: %s" % (argv[0], words[:200]))
    return said


def allowed(devices: List[Found], variable: str) -> List[Found]:
    """Those of the devices that a user has limited themselves to with the driver's own variable, if they have."""
    if variable not in os.environ:
        return devices
    names = [name.strip() for name in os.environ[variable].split(",") if name.strip()]
    return [device for device in devices if any(name in (device.id, device.unique[: len(name)]) for name in names)]


def first(free: List[Found], count: int) -> Optional[List[Found]]:
    """The first `count` free devices, where any will do."""
    return free[:count] if len(free) >= count else None
