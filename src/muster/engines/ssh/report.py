"""What a host has, as it said itself over ssh. Nothing that it says is trusted to be of the right kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dataclass import dataclass
from muster.devices import DeviceInfo
from muster.engines.ssh.node.addresses import Place
from muster.records.untrusted import number, printable, whole

LONGEST = 500  # characters of a text
MOST = 1000  # entries of a list


@dataclass(frozen=True)
class Wanted:
    """What a job wants to know beside what every host is asked."""

    python: str = ""
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accelerators:
    """The devices of one kind."""

    kind: str
    devices: tuple[DeviceInfo, ...] = ()
    driver: str = ""
    trouble: str = ""  # why the driver does not work

    @property
    def models(self) -> dict[str, int]:
        """How many devices there are of each model."""
        names = [device.name for device in self.devices]
        return {name: names.count(name) for name in dict.fromkeys(names)}


@dataclass(frozen=True)
class DeviceUse:
    """A device that a run or a process of the host uses."""

    kind: str
    id: str
    lock: int = 0  # the number of its lock on the host; 0 for a device that a process uses without one
    who: str = ""
    run: str = ""


@dataclass(frozen=True)
class Disk:
    path: str = ""
    free: int = 0  # bytes
    problem: str = ""  # why nothing can be written there


@dataclass(frozen=True)
class Report:
    """One host. Where `problem` is set, the other fields are empty but for those that were heard before."""

    host: str
    problem: str = ""  # why it cannot be used, and what to do
    reached: bool = False
    unresolved: bool = False  # its name means nothing
    python: str = ""  # that runs the agent
    python_path: str = ""
    machine: str = ""  # the architecture of its CPUs
    cpus: int = 0
    memory: int = 0
    accelerators: tuple[Accelerators, ...] = ()
    directory: Disk = Disk()
    tmp: Disk = Disk()
    memory_free: int = 0
    uses: tuple[DeviceUse, ...] | None = None  # where it was asked for
    unanswered: Mapping[str, str] | None = None  # kinds whose driver did not answer, with the reason
    clock: float = 0.0  # seconds that it is ahead of this machine
    clock_error: float = 0.0  # by how much that may be wrong
    namespaces: str = ""  # why there are none
    ssh: str = ""  # why nodes cannot log in here
    logout: str = ""  # the file because of which what runs in a session is killed when that ends
    place: Place | None = None  # where it is in the network
    address: str = ""  # that ranks would use
    no_address: str = ""  # why there is none
    job_python: str = ""  # where it has the Python of a job
    job_python_version: str = ""
    programs: Mapping[str, str] | None = None  # where it has programs that were asked for

    def of_kind(self, kind: str) -> Accelerators:
        return next((found for found in self.accelerators if found.kind == kind), Accelerators(kind))


@dataclass(frozen=True)
class Link:
    """A link from one host to another."""

    source: str
    target: str
    source_address: str = ""
    target_address: str = ""
    bytes_per_second: float = 0.0
    problem: str = ""


def fields(system: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Report that the answer about the system has."""
    return {
        **{name: text(system.get(name)) for name in ("python", "python_path", "machine", "namespaces", "ssh", "logout")},
        **{name: count(system.get(name)) for name in ("cpus", "memory", "memory_free")},
        "place": _place(system.get("place")),
        "directory": _disk(system.get("directory")),
        "tmp": _disk(system.get("tmp")),
    }


def accelerators(answer: Mapping[str, Any]) -> tuple[Accelerators, ...]:
    return tuple(_accelerators(one) for one in _list(answer.get("kinds")))


def _accelerators(given: Any) -> Accelerators:
    data = given if isinstance(given, dict) else {}
    listed = [one for one in _list(data.get("devices")) if isinstance(one, dict)]
    devices = tuple(DeviceInfo(text(one.get("id")), text(one.get("name")), ip=text(one.get("ip"))) for one in listed)
    usable = tuple(device for device in devices if device.id.isdecimal())
    return Accelerators(
        text(data.get("kind")), usable, text(data.get("driver")), "; ".join(map(text, _list(data.get("trouble"))))
    )


def uses(answer: Mapping[str, Any]) -> tuple[tuple[DeviceUse, ...], dict[str, str]]:
    """The devices that are in use, and the kinds whose driver did not answer."""
    kinds = [one for one in _list(answer.get("kinds")) if isinstance(one, dict)]
    found = [
        DeviceUse(
            text(kind.get("kind")), text(use.get("id")), count(use.get("lock")), text(use.get("who")), text(use.get("run"))
        )
        for kind in kinds
        for use in _list(kind.get("uses"))
        if isinstance(use, dict) and text(use.get("id")).isdecimal()
    ]
    return tuple(found), {text(kind.get("kind")): text(kind.get("trouble")) for kind in kinds if text(kind.get("trouble"))}


def _disk(given: Any) -> Disk:
    data = given if isinstance(given, dict) else {}
    return Disk(text(data.get("path")), count(data.get("free")), text(data.get("problem")))


def text(given: Any) -> str:
    return printable(given)[:LONGEST] if isinstance(given, str) else ""


def _place(given: Any) -> Place | None:
    try:
        return Place.from_json(given if isinstance(given, dict) else {})
    except ValueError:
        return None


def address(given: Any) -> str:
    """An IP address; nothing else is given to other hosts to connect to."""
    from ipaddress import ip_address  # here, because it takes long to import

    try:
        return str(ip_address(text(given)))
    except ValueError:
        return ""


def count(given: Any) -> int:
    return max(0, whole(given) or 0)


def seconds(given: Any) -> float:
    found = number(given)
    return found if found is not None and abs(found) < 1e12 else 0.0  # which is false for NaN


def _list(given: Any) -> list[Any]:
    return given[:MOST] if isinstance(given, list) else []
