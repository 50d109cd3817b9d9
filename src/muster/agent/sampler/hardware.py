"""Description of a machine: kernel, CPUs, memory and network, from files in /proc and /sys."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from muster.agent.sampler.host_usage import interfaces
from muster.linux.proc import listed, read, search

CPUS = "/sys/devices/system/cpu"
# ARM's /proc/cpuinfo has numbers instead of names: implementer and part.
ARM = {
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x48", "0xd01"): "Kunpeng-920",
    ("0x48", "0xd02"): "Kunpeng-920 (TaiShan v120)",
    ("0x70", "0x662"): "Phytium FT-2000+",
    ("0x70", "0x663"): "Phytium S2500",
}


def machine_id() -> str:
    """An id that all nodes on one machine share until it reboots."""
    return hashlib.sha256(b"muster " + read("/proc/sys/kernel/random/boot_id").strip()).hexdigest()[:16]


def describe() -> tuple[dict[str, Any], dict[str, str]]:
    """Describes this machine; the second dictionary has reasons for what is not known."""
    system = os.uname()
    model, (sockets, cores) = _model(), _topology()
    links = [{"name": name, "speed": _number(read(f"/sys/class/net/{name}/speed"))} for name in interfaces()]
    kilobytes = search("/proc/meminfo", r"^MemTotal:\s*(\d+) kB")
    found: dict[str, Any] = {
        "machine": machine_id(),
        "kernel": system.release,
        "os": search("/etc/os-release", r'^PRETTY_NAME="?([^"\n]+)'),
        "arch": system.machine,
        "cpu": {"model": model, "sockets": sockets, "cores": cores, "threads": os.cpu_count()},
        "memory": int(kilobytes) * 1024 if kilobytes else None,
        "network": links + _fabric(),
    }
    reasons = {
        "os": "there is no /etc/os-release",
        "memory": "/proc/meminfo does not report it",
        "cpu.model": "/proc/cpuinfo does not report it",
        "cpu.sockets": f"{CPUS} shows no topology",
    }
    values = {**found, "cpu.model": model, "cpu.sockets": sockets}
    return found, {name: reason for name, reason in reasons.items() if values[name] is None}


def _model() -> str | None:
    """The model of the first CPU: reading the whole of cpuinfo takes long on large machines."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(4096).decode("utf-8", "replace")
    except OSError:
        return None
    fields = dict(re.findall(r"^(.+?)\s*:[ \t]*(.*)$", text.split("\n\n")[0], re.MULTILINE))
    for name in ("model name", "Model Name", "cpu model", "cpu"):
        if fields.get(name):
            return str(fields[name])
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    if implementer is None:
        return None
    return ARM.get((implementer, str(part)), f"ARM implementer {implementer}, part {part}")


def _topology() -> tuple[int | None, int | None]:
    """The numbers of sockets and cores: CPUs with the same list of siblings share one."""
    folders = [f"{CPUS}/{name}/topology" for name in listed(CPUS) if re.fullmatch(r"cpu\d+", name)]
    sockets = {read(f"{folder}/core_siblings_list") for folder in folders} - {b""}
    cores = {read(f"{folder}/thread_siblings_list") for folder in folders} - {b""}
    return len(sockets) or None, len(cores) or None


def _fabric() -> list[dict[str, Any]]:
    """RDMA adapters; the rate of a port reads `400 Gb/sec (4X NDR)`."""
    names = listed("/sys/class/infiniband")
    rates = [_number(read(f"/sys/class/infiniband/{name}/ports/1/rate").split(b" ")[0]) for name in names]
    return [{"name": name, "speed": rate * 1000 if rate else None} for name, rate in zip(names, rates)]


def _number(text: bytes) -> int | None:
    """A speed; the kernel has -1, or nothing, for links that are down."""
    try:
        number = int(float(text))
    except ValueError:
        return None
    return number if number > 0 else None
