"""The ranks that train together under MindSpore, the device of this one, and the few numbers that they agree on.

On Ascend the ranks of RANK_TABLE_FILE meet through HCCL; on CPUs those of the dynamic cluster meet at its scheduler. That
choice is all that differs here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import init

from common.labels import Wrong


class Sum(nn.Cell):
    """One vector, added up over all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.add = ops.AllReduce()

    def construct(self, values: ms.Tensor) -> ms.Tensor:
        return self.add(values)


@dataclass(frozen=True)
class Gang:
    """This rank among all; nothing is shared where it is the only one."""

    rank: int
    size: int
    ascend: bool
    total: Sum | None = None  # of several ranks; one for all: a cell is compiled once for each shape

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Numbers of all ranks, added up in single precision: whole ones are exact up to 16 million."""
        own = np.asarray(values, np.float32)
        return own if self.total is None else self.total(ms.Tensor(own)).asnumpy()

    def gathered(self, numbers: Mapping[str, float]) -> list[dict[str, float]]:
        """What each rank has under the same names."""
        table = np.zeros((self.size, len(numbers)), np.float32)
        table[self.rank] = list(numbers.values())
        rows = self.sum(table.ravel()).reshape(table.shape) if numbers else table
        return [dict(zip(numbers, map(float, row))) for row in rows]

    def average(self, parameters: Sequence[ms.Parameter]) -> None:
        """Replaces parameters by their means over all ranks, in one message."""
        if self.size == 1:
            return
        own = [parameter.asnumpy() for parameter in parameters]
        means = self.sum(np.concatenate([values.ravel() for values in own])) / self.size
        parts = np.split(means, np.cumsum([values.size for values in own])[:-1])
        for parameter, values, part in zip(parameters, own, parts):
            parameter.set_data(ms.Tensor(part.reshape(values.shape)))

    def say(self, text: str) -> None:
        if self.first:
            print(text, flush=True)


def join(target: str) -> Gang:
    """Takes the place that RANK_ID and RANK_SIZE name; without them this process is alone."""
    ascend = target == "Ascend" or (target == "auto" and os.path.exists("/dev/davinci_manager"))
    size = int(os.environ.get("RANK_SIZE", "1"))
    if not hasattr(ms, "set_device"):
        raise Wrong(f"This is MindSpore {ms.__version__}. Take 2.5 or newer.")
    ms.set_context(mode=ms.GRAPH_MODE)
    if size == 1:  # with a rank table HCCL would be set up, and a device that is alone has nobody to talk to
        for name in ("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH"):
            os.environ.pop(name, None)
    try:
        ms.set_device(*(("Ascend", int(os.environ.get("DEVICE_ID", "0"))) if ascend else ["CPU"]))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise Wrong(f"MindSpore cannot use Ascend here: {reason} Install CANN and source its set_env.sh in `setup`.") from None
    if size > 1 and not ascend and "MS_SCHED_HOST" not in os.environ:
        raise Wrong("Ranks on CPUs meet at MindSpore's scheduler, and there is none. Set `rank_table: none` in the job file.")
    if size > 1:
        init()
        ms.set_auto_parallel_context(device_num=size, parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
    return Gang(int(os.environ.get("RANK_ID", "0")), size, ascend, Sum() if size > 1 else None)
