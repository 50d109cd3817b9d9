"""What a task used, as the service tells it: means of a minute, in percent; -1 where nothing was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.bench.samples import NodeSamples, TimeSeries
from muster.records import clocks
from muster.records.layout import AttemptDir
from muster.records.untrusted import plain
from muster.server.modelarts.stored import Stored
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.series.thinned import objects

MINUTE = 60.0
BUDGET = 8 << 20  # bytes of samples that are read
MOST = 1440  # minutes that are told, the last ones
NAMES = ("cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage", "npuUtil", "npuMemUsage")
OF_DEVICE = {"nvidia": ("gpuUtil", "gpuMemUsage"), "ascend": ("npuUtil", "npuMemUsage")}


def of_task(platform: Platform, job: Stored, node: int) -> list[dict[str, object]]:
    """All metrics of a task in the last attempt of its job."""
    attempt = platform.run_dir(job.row).last_attempt() if job.row.stage in (rows.RUNNING, rows.ENDED) else None
    if attempt is None:
        return [{"metric": name, "value": []} for name in NAMES]
    placed = (job.row.placement or {}).get("nodes") or []
    state = platform.nodes.state(job.row.pool).nodes.get(placed[node]) if node < len(placed) else None
    memory = (state.memory if state else None) or 0
    return metrics(attempt, node, str(job.row.job.get("device") or ""), memory)


def metrics(attempt: AttemptDir, node: int, kind: str, memory: int) -> list[dict[str, object]]:
    """All metrics of a node; `memory` is what its machine has, 0 where that is not known."""
    series = {name: _Minutes() for name in NAMES}
    if (read := _samples(attempt, node)) is not None:
        series["cpuUsage"].add(read.own["cpu"])
        if memory:
            series["memUsage"].add(read.own["mem"], 100 / memory)
        of_devices = OF_DEVICE.get(kind)
        for columns in read.devices.values() if of_devices else ():
            used, held = of_devices or ("", "")
            series[used].add(columns["util"])
            _add_shares(series[held], columns)
    first = min((minute for one in series.values() for minute in one.sums), default=0)
    last = max((minute for one in series.values() for minute in one.sums), default=-1)
    minutes = range(max(first, last - MOST + 1), last + 1)
    return [{"metric": name, "value": one.values(minutes)} for name, one in series.items()]


class _Minutes:
    """Means by minute."""

    def __init__(self) -> None:
        self.sums: dict[int, tuple[float, int]] = {}

    def add(self, series: TimeSeries, factor: float = 1.0) -> None:
        for time, value in zip(series.times, series.values, strict=True):
            total, count = self.sums.get(int(time // MINUTE), (0.0, 0))
            self.sums[int(time // MINUTE)] = (total + value * factor, count + 1)

    def values(self, minutes: Iterable[int]) -> list[float]:
        return [round(self.sums[one][0] / self.sums[one][1], 2) if one in self.sums else -1.0 for one in minutes]


def _add_shares(held: _Minutes, columns: Mapping[str, TimeSeries]) -> None:
    """The memory of a device that is used, where it says how much it has."""
    whole = max(columns["mem_total"].values, default=0.0)
    if whole:
        held.add(columns["mem"], 100 / whole)


def _samples(attempt: AttemptDir, node: int) -> NodeSamples | None:
    folder = attempt.node(node)
    try:
        rows = [plain(row) for row in objects(folder.metrics, folder.path, BUDGET)]
        return NodeSamples.from_rows(node, rows, clocks.ahead(attempt).get(node, 0.0))
    except (OSError, ValueError):
        return None
