"""SIGTERM in a training of many ranks: it is noted, agreed on, and acted on between two steps."""

from __future__ import annotations

import signal
from typing import Any

import torch
import torch.distributed as dist

from common.world import World

EXIT_CODE = 128 + signal.SIGTERM


class Stop:
    """SIGTERM: one rank that got it is enough, and all leave after the same step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._here = False
        self._flag = torch.zeros(1, dtype=torch.int32)
        self._pending: Any = None
        signal.signal(signal.SIGTERM, self._asked)

    def _asked(self, number: int, frame: Any) -> None:
        self._here = True

    def agreed(self) -> bool:
        """Whether all ranks know; every rank asks once per step, and what it learns is one step old, so nobody waits."""
        if self.world.size == 1:
            return self._here
        known = self.settle()
        self._flag.fill_(self._here)
        self._pending = dist.all_reduce(self._flag, dist.ReduceOp.MAX, async_op=True)
        return known

    def settle(self) -> bool:
        """Waits for the question that is still under way."""
        if self._pending is None:
            return False
        self._pending.wait()
        self._pending = None
        return bool(self._flag.item())
