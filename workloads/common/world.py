"""The ranks that train together, the device of this one, and the few things that they agree on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from common import seat
from common.labels import Wrong

PATIENCE = timedelta(minutes=30)  # rank 0 may evaluate or write a large checkpoint meanwhile


@dataclass(frozen=True)
class World:
    """This rank among all; nothing is shared where it is the only one."""

    rank: int
    size: int
    local: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Numbers of all ranks, added up in double precision."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.size > 1:
            dist.all_reduce(total)
        return [float(value) for value in total]

    def average(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replaces floating point tensors by their mean over all ranks."""
        for tensor in tensors if self.size > 1 else ():
            if tensor.is_floating_point():
                dist.all_reduce(tensor)
                tensor /= self.size

    def told(self, value: Any) -> Any:
        """What rank 0 has, for all."""
        box = [value]
        if self.size > 1:
            dist.broadcast_object_list(box)
        return box[0]

    def everywhere(self, value: Any) -> list[Any]:
        """What all ranks have, for all."""
        box = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(box, value)
        return box

    def gathered(self, value: Any) -> list[Any] | None:
        """What all ranks have, for rank 0."""
        if self.size == 1:
            return [value]
        box: list[Any] | None = [None] * self.size if self.first else None
        dist.gather_object(value, box)
        return box

    def agree(self, work: Callable[[], Any]) -> None:
        """Does something that may go wrong on one rank alone: then all ranks say so, and none is left waiting."""
        wrong = ""
        try:
            work()
        except Wrong as error:
            wrong = str(error)
        told = [text for text in self.everywhere(wrong) if text]
        if told:
            raise Wrong(told[0])

    def leave(self) -> None:
        if self.size > 1:
            dist.destroy_process_group()


def accelerator(device: torch.device) -> Any:
    """PyTorch's module for a device that is no CPU: torch.cuda or torch.npu, with streams, events and random numbers alike."""
    return getattr(torch, device.type)


def join() -> World:
    """Takes the place of this process among all ranks; where nobody tells one it is alone."""
    rank, size, local = seat.rank(), seat.ranks(), seat.local_rank()
    device, backend = _device(local)
    if size > 1:
        backends = "gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:{backend}"
        bound = device if backend == "nccl" else None
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            os.environ.setdefault(name, seat.told(name))
        dist.init_process_group(backends, _meeting(), PATIENCE, size, rank, device_id=bound)
    return World(rank, size, local, device)


def _meeting() -> str | None:
    """Where ranks meet: at MASTER_ADDR, or by a file of their server where that makes a world of its own."""
    if not seat.alone():
        return None
    shared, attempt = os.environ.get("MUSTER_SHARED", "."), os.environ.get("MUSTER_ATTEMPT", "1")
    return Path(shared, f"server-{seat.server()}-{attempt}").absolute().as_uri()


def _device(local: int) -> tuple[torch.device, str]:
    """The device of a local rank and the library by which ranks on such devices talk."""
    if torch.cuda.is_available():
        _check(local, torch.cuda.device_count())
        torch.cuda.set_device(local)
        return torch.device("cuda", local), "nccl"
    npu = _npu()
    if npu is None:
        return torch.device("cpu"), "gloo"
    _check(local, npu.device_count())
    npu.set_device(local)
    return torch.device("npu", local), "hccl"


def _npu() -> Any:
    """Ascend's module where it is installed and finds devices; this seam could not be tried without them."""
    try:
        import torch_npu  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return torch_npu.npu if torch_npu.npu.is_available() else None


def _check(local: int, devices: int) -> None:
    if local >= devices:
        raise Wrong(f"This is rank {local + 1} of its node, which has {devices} devices. Start one rank per device.")
