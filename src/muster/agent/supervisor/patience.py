"""Decides when nodes of a stopped attempt are killed."""

from __future__ import annotations

import time

from muster.channel.base import SupervisorChannel
from muster.records.run_view import Stop

KILL_LIMIT = 10.0  # for an agent to end after its ranks' grace
LINGER_LIMIT = 5.0  # for nodes to be gone once all of them have recorded their ends


class Patience:
    """Waits as long as ranks have grace and nodes upload."""

    def __init__(self, channel: SupervisorChannel) -> None:
        self.until: float | None = None  # when nodes have to be killed, once the gang is stopped
        self._channel = channel
        self._kill_announced = False
        self._recorded: set[int] = set()  # nodes that are known to have recorded their ends
        self._lingering = False  # whether all running nodes have recorded their ends

    def over(self, running: set[int], stop: Stop | None, kill: bool) -> list[int]:
        """The nodes that have to be killed now."""
        now = time.monotonic()
        if kill and not self._kill_announced:
            self._channel.announce("kill", {})
            self._kill_announced = True
            self.until = now + KILL_LIMIT
        if self.until is None and stop is not None:
            self.until = now + stop.grace + KILL_LIMIT
        if self.until is not None and not self._lingering and self._all_recorded(running):
            self._lingering = True
            self.until = min(self.until, now + LINGER_LIMIT)
        if self.until is None or now < self.until:
            return []
        self.until = now + 1.0  # one that cannot die yet is looked at again
        return [node for node in running if kill or not self._uploading(node)]

    def _uploading(self, node: int) -> bool:
        """True if a node saves its outputs, which takes the time that it takes."""
        return node in self._channel.published("uploading") and not self._channel.has_ended(node)

    def _all_recorded(self, running: set[int]) -> bool:
        """True if all nodes that are left have recorded their ends, of which their site may know later or never."""
        for node in running - self._recorded:
            if not self._channel.has_ended(node):
                return False
            self._recorded.add(node)
        return True
