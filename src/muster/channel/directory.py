"""How the agents of a run meet: a directory that all of them see.

What a node publishes lies among its own files; the meeting place holds links to it, so that one directory shows all.
"""

from __future__ import annotations

import os
from typing import Any

from muster.linux.watch import Watch
from muster.records.files import read_json, write_json, write_once
from muster.records.layout import AttemptDir, is_number


class Rendezvous:
    def __init__(self, attempt: AttemptDir, nodes: int) -> None:
        self._attempt = attempt
        self._nodes = nodes
        self._watch = Watch()
        self._watch.add(attempt.meet)
        self.topics: set[str] = set()  # everything that was published or announced so far
        self.counts: dict[str, int] = {}  # how many nodes have published a topic

    def fileno(self) -> int:
        return self._watch.fileno()

    @property
    def polling(self) -> bool:
        return self._watch.polling

    def publish(self, node: int, topic: str, data: Any) -> None:
        """Shows the others what this node has to say about a topic."""
        write_json(f"{self._attempt.node(node).path}/{topic}.json", data)
        os.symlink(f"../nodes/{node}/{topic}.json", f"{self._attempt.meet}/{topic}.{node}")

    def announce(self, topic: str, data: Any) -> bool:
        """Says something that holds for all; false when somebody else said it first."""
        return write_once(f"{self._attempt.meet}/{topic}", data)

    def news(self) -> list[str]:
        """What was published or announced since the last call, in the order in which it came."""
        names = [name for _, name in self._watch.drain()]
        if "" in names or not self.topics:  # something was missed, or this is the first look
            names += sorted(os.listdir(self._attempt.meet))
        new = [name for name in dict.fromkeys(names) if name and not name.endswith(".tmp") and name not in self.topics]
        self.topics.update(new)
        for topic, _, node in (name.rpartition(".") for name in new):
            if is_number(node) and int(node) < self._nodes:
                self.counts[topic] = self.counts.get(topic, 0) + 1
        return new

    def get(self, topic: str) -> dict[str, Any] | None:
        """What was said about a topic; one that cannot be read counts as not said yet."""
        data = read_json(self._attempt.topic(topic))
        if isinstance(data, dict):
            return data
        self.topics.discard(topic)
        return None

    def gather(self, topic: str, nodes: int) -> list[dict[str, Any]]:
        """What each node published about a topic, once all of them have."""
        return [self.get(f"{topic}.{node}") or {} for node in range(nodes)]

    def missing(self, topic: str, nodes: int) -> list[int]:
        """The nodes that have not published a topic."""
        return [node for node in range(nodes) if f"{topic}.{node}" not in self.topics]

    def close(self) -> None:
        self._watch.close()
