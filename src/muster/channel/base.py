"""The channel between the supervisor of an attempt and its nodes, whichever form it has.

A node publishes topics and reads announcements. The supervisor gathers what the nodes published, and it alone
announces: a node that wants the gang to stop publishes a request.

Published by nodes (`records/layout.py` declares them, with bounds): facts, noted, ready, up, done, failed, uploading, holding
and stop-request. Announced by the supervisor: world, keys, ready, stop, release and kill.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Message(NamedTuple):
    """A topic that a node has published."""

    node: int
    topic: str
    data: dict[str, Any]


class Channel(Protocol):
    """The part that both sides have."""

    def fileno(self) -> int:
        """A descriptor that is readable when there is news."""

    @property
    def polling(self) -> bool:
        """True if there is no such descriptor: news has to be polled for."""

    def close(self) -> None: ...


class NodeChannel(Channel, Protocol):
    """The side of a node."""

    def publish(self, topic: str, data: dict[str, Any]) -> None: ...

    def listen(self) -> bool:
        """Takes in what was announced since the last call; false when nothing was."""

    def announced(self, topic: str) -> dict[str, Any] | None:
        """The announcement of a topic, once it was taken in."""

    def show_life(self) -> None:
        """Sends signs of life from now on, whatever the agent is busy with."""


class SupervisorChannel(Channel, Protocol):
    """The side of the supervisor."""

    def announce(self, topic: str, data: dict[str, Any]) -> None: ...

    def news(self) -> list[Message]:
        """Returns the messages that were published since the last call, in that order."""

    def published(self, topic: str) -> dict[int, dict[str, Any]]:
        """Returns the messages of a topic, by node, as far as `news` has returned them."""

    def has_ended(self, node: int) -> bool:
        """True if a node has left a record of its end."""

    def silent(self) -> set[int]:
        """Nodes without a sign of life for too long."""

    def progress(self) -> object:
        """A value that differs from the last one when ranks have written something."""
