"""What pages show of a bundle besides its result: samples over time, read from it once, and the description of a system."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from muster.bench.report.samples import ByNode, bundle_rows, from_rows
from muster.records.files import read_json, write_json
from muster.server.core.layout import Place
from muster.server.results.entry import Entry

LONGEST = 500


def of(place: Place, entries: Iterable[Entry]) -> dict[str, ByNode]:
    """The samples of all runs in these results, thinned."""
    found: dict[str, ByNode] = {}
    for entry in entries:
        found.update(_kept(place, entry))
    return found


def _kept(place: Place, entry: Entry) -> dict[str, ByNode]:
    """A bundle may hold gigabytes of logs: what was read out of it is kept beside it."""
    bundle = place.bundle(entry.sha256)
    kept = str(bundle.with_name(f"{entry.sha256}.samples.json"))
    found = read_json(kept)
    if found is None:
        found = bundle_rows(bundle)
        with suppress(OSError):  # a full disk keeps nobody from reading
            write_json(kept, found)
    return {run: from_rows(nodes) for run, nodes in found.items()}


def lines(system: Any) -> list[tuple[str, str]]:
    """A description of a system as names and values, whatever its shape is: AISBench leaves that open."""
    return list(_lines(system, "")) if system is not None else []


def _lines(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _lines(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _lines(inner, f"{path}[{index}]")
    else:
        yield path, (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:LONGEST]
