"""CPU, memory, disk and network use of a run, over the same window as its energy."""

from __future__ import annotations

from collections.abc import Sequence

from muster.bench.model.result import NodeUse, RankUse
from muster.bench.samples import NodeSamples, TimeSeries, Window

RATES = ("disk_read", "disk_write", "net_in", "net_out")


def use(samples: Sequence[NodeSamples], window: Window | None) -> tuple[NodeUse, ...]:
    return tuple(_node(of, window) for of in samples if window is not None)


def _node(samples: NodeSamples, window: Window) -> NodeUse:
    ranks = [
        RankUse(int(rank), columns["cpu"].mean(window), _max(columns["mem"], window))
        for rank, columns in samples.ranks.items()
        if rank.isascii() and rank.isdigit() and len(rank) < 10
    ]
    return NodeUse(
        node=samples.node,
        cpu=samples.own["cpu"].mean(window),
        cpu_max=_max(samples.own["cpu"], window),
        mem_max=_max(samples.own["mem"], window),
        **{name: samples.own[name].mean(window) for name in RATES},
        ranks=tuple(sorted(ranks, key=lambda row: row.rank)),
    )


def _max(series: TimeSeries, window: Window) -> float | None:
    return max(series.within(window), default=None)
