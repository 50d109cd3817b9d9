"""What the modules for accelerators share."""

from __future__ import annotations

import os
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


def ask(argv: Sequence[str], limit: float = 20.0) -> Optional[str]:
    """What a driver's tool prints, or None when it is not there or fails."""
    environment = dict(os.environ, LC_ALL="C")
    try:
        done = subprocess.run(
            list(argv),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=limit,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def first(free: List[Found], count: int) -> Optional[List[Found]]:
    """The first `count` free devices, where any will do."""
    return free[:count] if len(free) >= count else None
