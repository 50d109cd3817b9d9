"""What this host has, for a submitter who asks over ssh: Python, devices, disks, clock, programs, and links to other hosts."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

from muster import devices
from muster.agent.sandbox import namespaces
from muster.agent.supervisor import device_use
from muster.dataclass import asdict
from muster.engines.ssh.node import addresses
from muster.engines.ssh.node.conversation import answer_questions
from muster.engines.ssh.node.host import logind
from muster.engines.ssh.node.host.link_speed import LinkEnd
from muster.engines.ssh.node.host.ring import RingEnd
from muster.linux import proc
from muster.linux.ssh_programs import ssh_unavailable

KINDS = [kind for kind in devices.KINDS if kind != "cpu"]
TRIED = 1 << 14  # bytes that are written to see whether a disk takes them
ASKING_LIMIT = 10.0  # seconds for a Python to say its version
VERSION = "import platform; print(platform.python_version())"


def main(words: list[str]) -> int:
    [root] = words
    end, ring = LinkEnd(), RingEnd()
    answer_questions(
        {
            "clock": lambda: {"time": time.time()},
            "system": partial(system, root),
            "devices": accelerators,
            "use": use,
            "programs": programs,
            "address": address,
            "listen": end.listen,
            "receive": end.receive,
            "send": end.send,
            "ring": ring.listen,
            "join": ring.join,
            "add_up": ring.add_up,
        }
    )
    return 0


def system(root: str, ssh: bool) -> dict[str, Any]:
    """This machine, and the places of Muster on it; `ssh` asks for the programs of logins between nodes, too."""
    missing = ssh_unavailable() if ssh else None
    return {
        "python": platform.python_version(),
        "python_path": sys.executable,
        "machine": os.uname().machine,
        "cpus": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "memory_free": 1024 * int(proc.search("/proc/meminfo", r"^MemAvailable: *(\d+) kB$") or 0),
        "directory": _disk(root),
        "tmp": _disk("/tmp"),
        "namespaces": namespaces.available(),
        "ssh": "; ".join(missing or ()),
        "logout": logind.kills(proc.user_name(os.getuid()) or "", os.environ),
        "place": addresses.here().to_json(),
    }


def _disk(path: str) -> dict[str, Any]:
    """The free space of a directory, and why nothing can be written there."""
    free, problem = 0, ""
    try:
        found = os.statvfs(path)
        free = found.f_bavail * found.f_frsize if found.f_favail or not found.f_files else 0  # a disk can be out of inodes
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"\1" * TRIED)
    except OSError as error:
        problem = str(error.strerror).lower()
    return {"path": path, "free": free, "problem": problem}


def accelerators() -> dict[str, Any]:
    """The devices of each kind that this host has or whose driver does not work."""
    found = [_accelerators(kind) for kind in KINDS]
    return {"kinds": [one for one in found if one["devices"] or one["trouble"]]}


def _accelerators(kind: str) -> dict[str, Any]:
    trouble: list[str] = []
    found = devices.found(kind, trouble.append)
    driver, models = _models(kind, [device.id for device in found]) if found else (None, {})
    listed = [{"id": device.id, "name": models.get(device.id) or device.name, "ip": device.ip} for device in found]
    return {"kind": kind, "devices": listed, "driver": driver, "trouble": trouble}


def use(known: list[int]) -> dict[str, Any]:
    """The devices that are in use, and kinds of which that cannot be said. `known` are locks whose holders are known."""
    return {"kinds": [_use(kind, known) for kind in KINDS]}


def _use(kind: str, known: list[int]) -> dict[str, Any]:
    try:
        found = device_use.uses(kind, devices.KINDS[kind].found(), known)
    except devices.DriverError as error:
        return {"kind": kind, "uses": [], "trouble": str(error)}
    return {"kind": kind, "uses": [asdict(one) for one in found], "trouble": ""}


def _models(kind: str, ids: list[str]) -> tuple[str | None, dict[str, str | None]]:
    """The version of the driver, and the models of devices by their ids, as far as the driver says them."""
    try:
        meter = devices.open_meter(kind, ids)
    except devices.Unmeasured:
        return None, {}
    try:
        meter.read()
        name = devices.ascend.full_name if kind == "ascend" else str
        return meter.driver, {device.id: device.name and name(device.name) for device in meter.describe()}
    except devices.Unmeasured:
        return meter.driver, {}
    finally:
        meter.close()


def programs(python: str, names: list[str]) -> dict[str, Any]:
    """Where programs are, and the version of a job's Python; empty for what is not there."""
    path = shutil.which(python) if python else None
    found = {name: shutil.which(name) or "" for name in names}
    return {"programs": found, "job_python": path or "", "job_python_version": _version(path) if path else ""}


def _version(python: str) -> str:
    try:
        done = subprocess.run([python, "-c", VERSION], stdin=subprocess.DEVNULL, capture_output=True, timeout=ASKING_LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def address(peer: str) -> dict[str, Any]:
    """The address of this host on the route to another one."""
    return {"address": addresses.source(peer)}
