"""NVIDIA GPUs, listed by nvidia-smi."""

from __future__ import annotations

from collections.abc import Sequence

from muster.devices.base import DeviceInfo, Meter, allowed, ask, first, real_path

choose = first


def found() -> list[DeviceInfo]:
    text = ask(["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"])
    rows = [[part.strip() for part in line.split(",", 2)] for line in text.splitlines()]
    devices = [DeviceInfo(row[0], row[2], row[1]) for row in rows if len(row) == 3 and row[0].isdigit()]
    return allowed(devices, "CUDA_VISIBLE_DEVICES")


def files(devices: Sequence[DeviceInfo]) -> list[str]:
    names = [f"nvidia{device.id}" for device in devices]
    return [real_path("dev/" + name) for name in (*names, "nvidiactl", "nvidia-uvm")] if devices else []


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
