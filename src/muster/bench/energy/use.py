"""CPU, memory, disk and network use of a run, over the same window as its energy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.bench.samples import NodeSamples, TimeSeries, Window
from muster.metrics import numbers

RATES = ("disk_read", "disk_write", "net_in", "net_out")


def use(samples: Sequence[NodeSamples], window: Window | None) -> list[dict[str, Any]]:
    """A table with a row per node; what was not sampled is null."""
    return [_node(of, window) for of in samples if window is not None]


def _node(samples: NodeSamples, window: Window) -> dict[str, Any]:
    ranks = [
        {"rank": int(rank), "cpu": _mean(columns["cpu"], window), "mem_max": _max(columns["mem"], window)}
        for rank, columns in samples.ranks.items()
        if rank.isascii() and rank.isdigit() and len(rank) < 10
    ]
    return {
        "node": samples.node,
        "cpu": _mean(samples.own["cpu"], window),
        "cpu_max": _max(samples.own["cpu"], window),
        "mem_max": _max(samples.own["mem"], window),
        **{name: _mean(samples.own[name], window) for name in RATES},
        "ranks": sorted(ranks, key=lambda row: row["rank"]),
    }


def _mean(series: TimeSeries, window: Window) -> float | None:
    values = series.within(window)
    return numbers.mean(values) if values else None


def _max(series: TimeSeries, window: Window) -> float | None:
    return max(series.within(window), default=None)
