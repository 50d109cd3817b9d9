"""What the modules for accelerators share."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Found:
    """A device of this machine."""

    id: str  # the number its driver gives it
    name: str = ""
    unique: str = ""  # an id that no other device has; the lock on the device carries it
    ip: str = ""


class DriverError(Exception):
    """A driver's tool that is there and does not work."""


class Unmeasured(Exception):
    """Why something cannot be measured."""


class Reading(NamedTuple):
    """What a device shows at one moment; None stands for what it does not tell."""

    util: float | None = None  # percent
    mem: float | None = None  # bytes in use
    power: float | None = None  # watts
    temp: float | None = None  # degrees Celsius
    energy: float | None = None  # joules, on a counter that only grows

    def known(self) -> dict[str, float]:
        return {name: value for name, value in self._asdict().items() if value is not None}


class Meter:
    """Reads some devices of one kind again and again."""

    name = ""  # of the driver's interface
    pause = 0.0  # the least seconds between two readings, where one is slow
    driver: str | None = None
    runtime: str | None = None

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}  # fields of a reading that these devices do not have, with the reason

    def read(self, whole: bool = False) -> dict[str, Reading]:
        """What each device shows, by its id; what is costly to ask for only now and then, unless it is all to be told."""
        raise NotImplementedError

    def describe(self) -> list[dict[str, Any]]:
        """What the devices are: id, name, uuid, memory and driver of each."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the driver."""


def real_path(below: str) -> str:
    """A path of the machine. Tests lead it to a machine that they made up, with MUSTER_DEVICE_ROOT."""
    return os.path.join(os.environ.get("MUSTER_DEVICE_ROOT", "/"), below)


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
        raise DriverError(f"{argv[0]} does not work: {error}") from None
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        words = (said.strip().splitlines() or [f"code {done.returncode}"])[-1]
        raise DriverError(f"{argv[0]} does not work: {words[:200]}")
    return said


def allowed(devices: list[Found], variable: str) -> list[Found]:
    """Those of the devices that a user has limited themselves to with the driver's own variable, if they have."""
    if variable not in os.environ:
        return devices
    names = [name.strip() for name in os.environ[variable].split(",") if name.strip()]
    return [device for device in devices if any(name in (device.id, device.unique[: len(name)]) for name in names)]


def first(free: list[Found], count: int) -> list[Found] | None:
    """The first `count` free devices, where any will do."""
    return free[:count] if len(free) >= count else None
