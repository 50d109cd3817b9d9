"""Types and functions that the modules for accelerators share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from muster.dataclass import dataclass


@dataclass(frozen=True)
class DeviceInfo:
    """A device of this machine."""

    id: str  # its number for the driver
    name: str = ""
    unique: str = ""  # an id that no other device has, which names its lock
    ip: str = ""


class DriverError(Exception):
    """A driver's tool is installed and does not work."""


class Unmeasured(Exception):
    """Something cannot be measured; the message says why."""


class Reading(NamedTuple):
    """The state of a device at one moment; None for what it does not report."""

    util: float | None = None  # percent
    mem: float | None = None  # bytes in use
    power: float | None = None  # watts
    temp: float | None = None  # degrees Celsius
    energy: float | None = None  # joules, on a counter that only grows

    def known(self) -> dict[str, float]:
        return {name: value for name, value in self._asdict().items() if value is not None}


class Description(NamedTuple):
    """The hardware of a device."""

    id: str
    name: str | None
    uuid: str | None
    memory: int | None  # bytes
    driver: str | None


class Meter:
    """Reads some devices of one kind repeatedly."""

    name = ""  # of the driver's interface
    pause = 0.0  # seconds between two readings, at least, if one is slow
    driver: str | None = None
    runtime: str | None = None

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}  # why fields of a reading are missing

    def read(self, whole: bool = False) -> dict[str, Reading]:
        """Reads the devices, by id; costly fields only now and then, unless `whole`."""
        raise NotImplementedError

    def describe(self) -> list[Description]:
        raise NotImplementedError

    def close(self) -> None:
        """Closes the driver."""


def real_path(below: str) -> str:
    """A path on this machine; tests set MUSTER_DEVICE_ROOT to a made-up one."""
    return os.path.join(os.environ.get("MUSTER_DEVICE_ROOT", "/"), below)


def ask(argv: Sequence[str], limit: float = 5.0) -> str:
    """The output of a driver's tool; empty if it is not installed. Raises DriverError if it fails."""
    import shutil  # here, because it takes long to import

    tool = shutil.which(argv[0])
    if not tool:
        return ""
    try:
        return output_of([tool, *argv[1:]], limit)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DriverError(f"{argv[0]} does not work: {error}") from None


def output_of(argv: Sequence[str], limit: float, **variables: str) -> str:
    """The output of a tool that is there. Raises DriverError if it fails, OSError, or TimeoutExpired."""
    environment = dict(os.environ, LC_ALL="C", **variables)
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, env=environment
    )
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        last = (output.strip().splitlines() or [f"code {done.returncode}"])[-1]
        raise DriverError(f"{os.path.basename(argv[0])} does not work: {last[:200]}")
    return output


def allowed(devices: list[DeviceInfo], variable: str) -> list[DeviceInfo]:
    """The devices in a variable of the driver such as CUDA_VISIBLE_DEVICES; all if it is not set."""
    if variable not in os.environ:
        return devices
    names = [name.strip() for name in os.environ[variable].split(",") if name.strip()]
    return [device for device in devices if any(name in (device.id, device.unique[: len(name)]) for name in names)]


def first(free: list[DeviceInfo], count: int) -> list[DeviceInfo] | None:
    """The first `count` free devices; None if there are not enough."""
    return free[:count] if len(free) >= count else None
