"""The samples of runs, read from their records or from a bundle, no more of them than drawings can show."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from muster.bench.samples import MOST_BYTES, NodeSamples
from muster.records.layout import RunDir
from muster.records.untrusted import LONGEST_LINE, parse_json, plain, read_lines

LINES = 100_000  # of all nodes of a run together
LEAST = 100  # of one node
UNDRAWN = ("energy", "ranks")  # parts of a sample that no drawing shows
_MEMBER = re.compile(r"[^/]+/runs/([^/]+)/attempts/(\d+)/nodes/(\d+)/metrics\.jsonl")

ByNode = dict[int, NodeSamples]
Rows = list[dict[str, Any]]


def of_run(run: RunDir, attempt: int) -> ByNode:
    """The samples of the nodes of one attempt of a run."""
    folder = run.attempt(attempt)
    nodes = folder.node_indexes()
    found = {}
    for node in nodes:
        try:
            lines = read_lines(folder.node(node).metrics, most=MOST_BYTES)
            found[node] = NodeSamples.from_rows(node, _rows(thinned(lines, _most(len(nodes)))))
        except OSError:
            continue
    return found


def of_bundle(path: Path) -> dict[str, ByNode]:
    """The samples of all runs in a bundle."""
    return {run: from_rows(nodes) for run, nodes in bundle_rows(path).items()}


def from_rows(nodes: dict[Any, Rows]) -> ByNode:
    return {int(node): NodeSamples.from_rows(int(node), rows) for node, rows in nodes.items()}


def bundle_rows(path: Path) -> dict[str, dict[int, Rows]]:
    """The thinned lines of `metrics.jsonl` by run and node, of each run's last attempt. Nothing is unpacked to the disk."""
    found: dict[str, dict[int, dict[int, Rows]]] = {}
    with tarfile.open(path, "r:*") as bundle:
        members = [(member, match) for member in bundle if member.isfile() and (match := _MEMBER.fullmatch(member.name))]
        for member, match in members:
            file = bundle.extractfile(member)
            if file is not None:
                lines = thinned(iter(partial(file.readline, LONGEST_LINE), b""), _most(len(members)))
                found.setdefault(match[1], {}).setdefault(int(match[2]), {})[int(match[3])] = list(_rows(lines))
    return {run: attempts[max(attempts)] for run, attempts in found.items()}


def thinned(lines: Iterable[bytes], most: int) -> list[bytes]:
    """The header, and at most `most` of the other lines, evenly distributed."""
    header: list[bytes] = []
    kept: list[bytes] = []
    every = 1
    for number, line in enumerate(lines):
        if number == 0:
            header.append(line)
        elif number % every == 0:
            kept.append(line)
            if len(kept) > 2 * most:
                kept, every = kept[1::2], every * 2
    return [*header, *kept[:: max(1, -(-len(kept) // most))]]


def _most(nodes: int) -> int:
    return max(LEAST, LINES // max(1, nodes))


def _rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Parses lines; skips those that are damaged or cut off."""
    for line in lines:
        try:
            data = parse_json(line)
        except ValueError:
            continue
        if isinstance(data, dict):
            row: dict[str, Any] = plain({key: value for key, value in data.items() if key not in UNDRAWN})
            yield row
