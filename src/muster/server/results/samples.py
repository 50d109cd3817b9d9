"""Parts of a bundle that pages show besides its result: samples over time, and the description of the system."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from muster.bench.report.samples import ByNode, bundle_rows, from_rows
from muster.records.files import read_json, write_json
from muster.server.core.layout import ServerLayout
from muster.server.results.result_row import ResultRow

MAX_VALUE = 500  # characters


def of_results(layout: ServerLayout, results: Iterable[ResultRow]) -> dict[str, ByNode]:
    """Returns the thinned samples of all runs in these results, by run and node."""
    samples: dict[str, ByNode] = {}
    for result in results:
        samples.update(_cached(layout, result))
    return samples


def _cached(layout: ServerLayout, result: ResultRow) -> dict[str, ByNode]:
    """Reads the samples of a bundle, which may hold gigabytes of logs, once; later from a file beside it."""
    bundle = layout.bundle(result.sha256)
    cache = str(bundle.with_name(f"{result.sha256}.samples.json"))
    samples = read_json(cache)
    if samples is None:
        samples = bundle_rows(bundle)
        with suppress(OSError):  # reading goes on with a full disk
            write_json(cache, samples)
    return {run: from_rows(nodes) for run, nodes in samples.items()}


def system_lines(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Flattens the description of a system, whose structure AISBench leaves open, into names and values."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from system_lines(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from system_lines(inner, f"{path}[{index}]")
    elif path:
        yield path, (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:MAX_VALUE]
