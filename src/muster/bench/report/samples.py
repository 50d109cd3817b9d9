"""The samples of runs, read from their records or from a bundle, no more of them than drawings can show."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from muster.bench.energy.samples import MOST_BYTES
from muster.records.layout import RunDir
from muster.records.untrusted import LONGEST_LINE, parse_json, read_lines

LINES = 100_000  # of all nodes of a run together
LARGEST = 1e30  # what is larger is no measurement, nor is what is no number
LEAST = 100  # of one node
_MEMBER = re.compile(r"[^/]+/runs/([^/]+)/attempts/(\d+)/nodes/(\d+)/metrics\.jsonl")

Lines = list[dict[str, Any]]
ByNode = dict[int, Lines]


def of_run(run: RunDir, attempt: int) -> ByNode:
    """What the nodes of one attempt of a run sampled."""
    folder = run.attempt(attempt)
    nodes = folder.node_indexes()
    found = {}
    for node in nodes:
        try:
            lines = read_lines(f"{folder.node(node).path}/metrics.jsonl", most=MOST_BYTES)
            found[node] = thinned(lines, _most(len(nodes)))
        except OSError:
            continue
    return found


def of_bundle(path: Path) -> dict[str, ByNode]:
    """What the nodes of all runs of a bundle sampled, each run's last attempt. Nothing is written to the disk."""
    found: dict[str, dict[int, ByNode]] = {}
    with tarfile.open(path, "r:*") as bundle:
        members = [(member, match) for member in bundle if member.isfile() and (match := _MEMBER.fullmatch(member.name))]
        for member, match in members:
            file = bundle.extractfile(member)
            if file is not None:
                lines = thinned(iter(partial(file.readline, LONGEST_LINE), b""), _most(len(members)))
                found.setdefault(match[1], {}).setdefault(int(match[2]), {})[int(match[3])] = lines
    return {run: attempts[max(attempts)] for run, attempts in found.items()}


def thinned(lines: Iterable[bytes], most: int) -> Lines:
    """The header, and every so many of the other lines that at most `most` remain. Only what is kept is parsed."""
    kept: list[bytes] = []
    header: list[bytes] = []
    every = 1
    for number, line in enumerate(lines):
        if number == 0:
            header.append(line)
        elif number % every == 0:
            kept.append(line)
            if len(kept) > 2 * most:
                kept, every = kept[1::2], every * 2
    return [data for line in [*header, *kept[:: max(1, -(-len(kept) // most))]] if (data := _parsed(line)) is not None]


def _most(nodes: int) -> int:
    return max(LEAST, LINES // max(1, nodes))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A line with its numbers alone: bundles come from strangers, and a full disk or a crash cuts lines off."""
    try:
        data = parse_json(line)
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    if "format" in data:
        return _header(data)
    sample = _sample(data)
    return sample if "t" in sample else None


def _header(data: dict[str, Any]) -> dict[str, Any]:
    interval, missing = _numbers(data).get("interval", 0.0), data.get("missing")
    return {
        "format": data["format"],
        "interval": interval if interval > 0 else 1.0,
        "machine": str(data.get("machine") or ""),
        "missing": {key: str(why) for key, why in missing.items()} if isinstance(missing, dict) else {},
    }


def _sample(data: dict[str, Any]) -> dict[str, Any]:
    """The numbers under their names, and devices and meters with theirs."""
    found = _numbers(data)
    devices, power = data.get("devices"), data.get("power")
    by_device = devices.items() if isinstance(devices, dict) else ()
    found["devices"] = {name: _numbers(device) for name, device in by_device if isinstance(device, dict)}
    found["power"] = _numbers(power) if isinstance(power, dict) else {}
    return found


def _numbers(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if _number(value)}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
