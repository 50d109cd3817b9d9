"""Reads what nodes published and a supervisor announced in an attempt; `muster.channel` writes it."""

from __future__ import annotations

import os
from typing import Any

from muster.records.files import read_mapping
from muster.records.layout import NODE_TOPICS, AttemptDir, is_number

WORLD, KEYS = "world", "keys"


def names(attempt: AttemptDir) -> list[str]:
    """The names of all that was published and announced, such as `up.0` and `stop`."""
    try:
        return os.listdir(attempt.meet)
    except FileNotFoundError:
        return []


def publication(name: str) -> tuple[int, str] | None:
    """The node and the topic of a name; None for one that no node may publish."""
    topic, _, node = name.rpartition(".")
    return (int(node), topic) if topic in NODE_TOPICS and is_number(node) else None


def published(attempt: AttemptDir, node: int, topic: str) -> dict[str, Any] | None:
    """What a node has published of a topic; None where that cannot be read or is larger than it may be."""
    return read_mapping(attempt.node(node).topic(topic), NODE_TOPICS[topic])


def gathered(attempt: AttemptDir, topic: str) -> dict[int, dict[str, Any]]:
    """What nodes have published of a topic, by node."""
    found = sorted(node for node, each in filter(None, map(publication, names(attempt))) if each == topic)
    return {node: published(attempt, node, topic) or {} for node in found}


def path(attempt: AttemptDir, topic: str) -> str:
    """The file of an announcement. Keys lie where they are deleted with the attempt."""
    return {WORLD: attempt.world, KEYS: attempt.ssh + "/keys.json"}.get(topic, f"{attempt.meet}/{topic}")


def announced(attempt: AttemptDir, topic: str) -> dict[str, Any] | None:
    return read_mapping(path(attempt, topic))


def stop(attempt: AttemptDir) -> dict[str, Any] | None:
    """Why the gang was stopped: as announced or, where the supervisor did not come to that, as a node requested."""
    requests = [request for request in gathered(attempt, "stop-request").values() if request.get("cause")]
    return announced(attempt, "stop") or next(iter(requests), None)
