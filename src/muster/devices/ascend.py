"""Ascend NPUs: device files of the driver, addresses in hccn.conf, and processes from npu-smi."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from muster.devices.base import DeviceInfo, Meter, allowed, ask, real_path

RING = 4  # chips of one HCCS ring; an Ascend 910 node has two of them
# Numbers of free chips of the ring to take from, in order of preference: keeps whole rings free for jobs that need them.
PREFER = {1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)}


def found() -> list[DeviceInfo]:
    try:
        names = os.listdir(real_path("dev"))
    except OSError:
        return []
    numbers = sorted(int(name[7:]) for name in names if re.match(r"davinci\d+\Z", name))
    ips = addresses()
    files = {str(number): real_path(f"dev/davinci{number}") for number in numbers}
    devices = [DeviceInfo(id, "Ascend", file, ips.get(id, "")) for id, file in files.items()]
    return allowed(devices, "ASCEND_RT_VISIBLE_DEVICES")


def full_name(chip: str) -> str:
    """The name of a chip of which npu-smi says `910B3` or, on later machines, `Ascend910`."""
    return f"Ascend {chip.removeprefix('Ascend').strip()}".rstrip()


def addresses() -> dict[str, str]:
    """The address of the network port of each device, from hccn.conf."""
    try:
        with open(real_path("etc/hccn.conf"), encoding="utf-8", errors="replace") as file:
            return dict(re.findall(r"^\s*address_(\d+)\s*=\s*(\S+)", file.read(), re.MULTILINE))
    except OSError:
        return {}


def files(devices: Sequence[DeviceInfo]) -> list[str]:
    common = [real_path("dev/" + name) for name in ("davinci_manager", "devmm_svm", "hisi_hdc")]
    return [*(device.unique for device in devices), *common] if devices else []


def users() -> dict[str, list[int]]:
    """The pids on each device, by its unique id."""
    using: dict[str, list[int]] = {}
    text = ask(["npu-smi", "info"])
    # The process table at the end: | NPU  Chip | Process id | Process name, blank for another container's | memory |
    for npu, pid in re.findall(r"^\|\s*(\d+)\s+\d+\s*\|\s*(\d+)\s*\|", text, re.MULTILINE):
        using.setdefault(real_path("dev/davinci" + npu), []).append(int(pid))
    return using


def impossible(count: int) -> str:
    if count in (1, 2, 4, 8):
        return ""
    return f"an Ascend 910 node gives 1, 2 or 4 devices of one ring, or all 8; not {count}"


def choose(free: list[DeviceInfo], count: int) -> list[DeviceInfo] | None:
    chosen = choose_ids([int(device.id) for device in free], count)
    return None if chosen is None else [device for device in free if int(device.id) in chosen]


def choose_ids(free: Sequence[int], count: int) -> list[int] | None:
    """The ids of `count` free chips that work together, by the rules of rings; None if there are none."""
    if count == 2 * RING:
        return list(free[:count]) if len(free) >= count else None
    rings: dict[int, list[int]] = {}
    for id in free:
        rings.setdefault(id // RING, []).append(id)
    for wanted in PREFER.get(count, ()):
        for ring in sorted(rings):
            if len(rings[ring]) == wanted:
                return rings[ring][:count]
    return None


def open_meter(ids: Sequence[str]) -> Meter:
    from muster.devices.npu_smi import NpuSmi

    return NpuSmi(ids)
