"""The ranks of an attempt as a grid: by node, each with its state and what led to its end."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.bench.report.phrase import Phrase, joined
from muster.server.pages.texts import TEXTS, say

WORST = 20  # ranks that are listed because they did not succeed
NUMBERED = 512  # ranks whose squares have numbers


@dataclass(frozen=True)
class Cell:
    process: str
    rank: int | None
    node: int
    state: str
    code: int | None
    signal: int | None
    started: float | None
    ended: float | None
    first: bool  # it failed first
    label: Phrase


@dataclass(frozen=True)
class Node:
    number: int
    host: str
    cells: list[Cell] = field(default_factory=list)


@dataclass(frozen=True)
class Grid:
    attempt: int
    nodes: list[Node]
    numbered: bool

    @property
    def cells(self) -> Iterator[Cell]:
        return (cell for node in self.nodes for cell in node.cells)

    @property
    def bad(self) -> list[Cell]:
        """Those that did not succeed, the first failure first."""
        found = [cell for cell in self.cells if cell.state in ("failed", "lost", "stopped", "damaged")]
        return sorted(found, key=lambda cell: (not cell.first, cell.state != "failed", cell.ended or 0.0))


def grid(run: dict[str, Any], number: int | None = None) -> Grid | None:
    """The ranks of an attempt, the last one unless it is named; None where there is none."""
    attempts = run.get("attempts") or []
    chosen = next((one for one in attempts if one["attempt"] == number), attempts[-1] if attempts else None)
    if chosen is None:
        return None
    failure = chosen.get("failure") or {}
    hosts = {node["node"]: str(node.get("host") or "") for node in chosen.get("nodes") or []}
    nodes: dict[int, Node] = {}
    for rank in chosen.get("ranks") or []:
        node = nodes.setdefault(rank["node"], Node(rank["node"], hosts.get(rank["node"], "")))
        node.cells.append(_cell(rank, node, rank["process"] == failure.get("process") and rank["node"] == failure.get("node")))
    count = sum(len(node.cells) for node in nodes.values())
    return Grid(chosen["attempt"], [nodes[index] for index in sorted(nodes)], count <= NUMBERED)


def _cell(rank: dict[str, Any], node: Node, first: bool) -> Cell:
    state = rank["state"] if f"state.{rank['state']}" in TEXTS else "unknown"
    shown = rank["rank"] if isinstance(rank["rank"], int) and rank["rank"] >= 0 else rank["process"]
    parts = [say("job.rank", rank=shown, node=node.number, host=node.host or "–", state=say(f"state.{state}"))]
    if rank.get("code") is not None:
        parts.append(say("job.rank.code", code=rank["code"]))
    if rank.get("signal") is not None:
        parts.append(say("job.rank.signal", signal=rank["signal"]))
    if first:
        parts.append(say("job.rank.first"))
    times = (rank.get("started"), rank.get("ended"))
    number = rank["rank"] if isinstance(rank["rank"], int) and rank["rank"] >= 0 else None
    ended = (rank.get("code"), rank.get("signal"))
    return Cell(rank["process"], number, rank["node"], state, *ended, *times, first, joined(parts))
