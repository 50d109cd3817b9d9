"""NVIDIA GPUs, listed by nvidia-smi."""

from __future__ import annotations

from collections.abc import Sequence

from muster.devices.base import DeviceInfo, Meter, allowed, ask, first

choose = first


def found() -> list[DeviceInfo]:
    text = ask(["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"])
    devices = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",", 2)]
        if len(parts) == 3 and parts[0].isdigit():
            devices.append(DeviceInfo(parts[0], parts[2], parts[1]))
    return allowed(devices, "CUDA_VISIBLE_DEVICES")


def users() -> dict[str, list[int]]:
    """The pids that compute on each device, by its unique id."""
    text = ask(["nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"])
    using: dict[str, list[int]] = {}
    for line in text.splitlines():
        unique, _, pid = (part.strip() for part in line.partition(","))
        if pid.isdigit():
            using.setdefault(unique, []).append(int(pid))
    return using


def impossible(count: int) -> str:
    return ""


def open_meter(ids: Sequence[str]) -> Meter:
    from muster.devices.nvml import Nvml

    return Nvml(ids)
