"""Decides when agents of a stopped attempt are killed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from muster.channel.base import Stop, SupervisorChannel

KILL_LIMIT = 10.0  # for an agent to end after its ranks' grace
LINGER_LIMIT = 5.0  # for launchers of agents, once all nodes have ended


class Patience:
    """Waits as long as ranks have grace and nodes upload."""

    def __init__(self, channel: SupervisorChannel) -> None:
        self.until: float | None = None  # when agents have to be killed, once the gang is stopped
        self._channel = channel
        self._kill_announced = False
        self._ended: set[int] = set()  # nodes that are known to have ended
        self._lingering = False  # whether nothing is left but launchers of agents

    def over(self, agents: dict[int, tuple[int, ...]], lost: Sequence[int], stop: Stop | None, kill: bool) -> list[int]:
        """The launchers that have to be killed now."""
        now = time.monotonic()
        if kill and not self._kill_announced:
            self._channel.announce("kill", {})
            self._kill_announced = True
            self.until = now + KILL_LIMIT
        if self.until is None and stop is not None:
            self.until = now + stop.grace + KILL_LIMIT
        if self.until is not None and not self._lingering and self._all_ended(agents, lost):
            self._lingering = True
            self.until = min(self.until, now + LINGER_LIMIT)
        if self.until is None or now < self.until:
            return []
        self.until = now + 1.0  # one that cannot die yet is looked at again
        return [pid for pid, nodes in agents.items() if kill or not self._uploading(nodes)]

    def _uploading(self, nodes: Sequence[int]) -> bool:
        """Whether one of the nodes saves its outputs, which takes the time that it takes."""
        return any(node in nodes and not self._channel.has_ended(node) for node in self._channel.published("uploading"))

    def _all_ended(self, agents: dict[int, tuple[int, ...]], lost: Sequence[int]) -> bool:
        """Whether all nodes have ended, of which their launchers may know later or never."""
        self._ended.update(lost)
        for node in [node for nodes in agents.values() for node in nodes if node not in self._ended]:
            if not self._channel.has_ended(node):
                return False
            self._ended.add(node)
        return True
