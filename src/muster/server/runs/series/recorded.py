"""Metrics that ranks recorded with `muster.record`, such as loss and throughput: by rank, by node or as a mean."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from muster.job import Job
from muster.metrics.sources import record_files
from muster.records import clocks
from muster.records.layout import AttemptDir
from muster.records.untrusted import number, whole
from muster.server.runs.series.model import By, Chart, Line, Over
from muster.server.runs.series.thinned import Grid, Point, objects, tail_mean

BUDGET = 12 << 20  # bytes that are read of all ranks together
LEAST = 1 << 15  # of one rank
RANKS = 256  # that are read
LINES = 32  # that are shown
METRICS = 24
NAME = 60  # characters
FIRST = ("loss", "throughput", "accuracy")
SLOWER, FACTOR = 0.02, 5.0  # a straggler is behind the median by that part of it, and by so many median deviations


@dataclass
class _Metric:
    unit: str = ""
    stepped: bool = True  # it is drawn over steps, which each of its points has
    by_rank: dict[int, list[tuple[float, float | None, float]]] = field(default_factory=dict)  # time, step, value

    def points(self, rank: int, start: float) -> list[Point]:
        return [((step if self.stepped else time - start), value) for time, step, value in self.by_rank[rank]]  # type: ignore[misc]


def charts(attempt: AttemptDir, job: Job, by: By, over: Over, start: float) -> list[Chart]:
    """One chart for each metric, over steps where all of its points have one; times are counted from `start`."""
    files = {rank: paths for rank, paths in record_files(attempt, job).items() if rank >= 0}
    ranks = _some(sorted(files), RANKS)
    found = _read(attempt, {rank: files[rank] for rank in ranks}, job)
    for metric in found.values():
        metric.stepped = metric.stepped and over == "step"
    order = sorted(found, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    left_out = len(files) - len(ranks)
    return [_chart(name, found[name], job, by, start, left_out) for name in order[:METRICS]]


def _read(attempt: AttemptDir, files: Mapping[int, Sequence[str]], job: Job) -> dict[str, _Metric]:
    found: dict[str, _Metric] = {}
    ahead = clocks.ahead(attempt)
    budget = max(LEAST, BUDGET // max(1, len(files)))
    for rank, paths in files.items():
        for path in paths:
            node = rank // max(1, job.ranks_per_node)
            try:
                for line in objects(path, attempt.node(node).path, budget):
                    _add(found, rank, line, ahead.get(node, 0.0))
            except OSError:
                continue  # it is gone, or something else stands there
    return found


def _add(found: dict[str, _Metric], rank: int, line: dict[str, object], ahead: float) -> None:
    time, value, name = number(line.get("t")), number(line.get("value")), line.get("name")
    if line.get("kind") != "metric" or line.get("final") is True or time is None or value is None or not isinstance(name, str):
        return
    if not math.isfinite(time) or (name not in found and len(found) >= 4 * METRICS):
        return
    metric = found.setdefault(name[:NAME], _Metric())
    step, unit = whole(line.get("step")), line.get("unit")
    metric.stepped = metric.stepped and step is not None
    metric.unit = metric.unit or (unit[:20] if isinstance(unit, str) else "")
    metric.by_rank.setdefault(rank, []).append((time - ahead, step, value))


def _chart(name: str, metric: _Metric, job: Job, by: By, start: float, left_out: int) -> Chart:
    points = {rank: metric.points(rank, start) for rank in sorted(metric.by_rank)}
    grid = Grid.over([place for of_rank in points.values() for place, _ in of_rank])
    slow = _slow(points, job.metric(name).better)
    groups = _groups(points, job, by, slow)
    lines = [Line(kind, index, *grid.mean(members), slow=kind == "rank" and index in slow) for kind, index, members in groups]
    drawn = {line.index for line in lines} if by == "rank" else set(points)
    unseen = left_out + (len(points) - len(drawn) if by == "rank" else 0)
    return Chart(name, metric.unit, "step" if metric.stepped else "time", lines, sorted(slow), unseen)


def _groups(points: dict[int, list[Point]], job: Job, by: By, slow: set[int]) -> list[tuple[str, int, list[list[Point]]]]:
    """The lines of a chart: kind, number, and the points of each of its ranks."""
    if by == "rank":
        shown = sorted({*_some(list(points), LINES - min(len(slow), LINES // 2)), *sorted(slow)[: LINES // 2]})
        return [("rank", rank, [points[rank]]) for rank in shown]
    if by == "mean":
        return [("mean", 0, list(points.values()))]
    nodes: dict[int, list[list[Point]]] = {}
    for rank, of_rank in points.items():
        nodes.setdefault(rank // max(1, job.ranks_per_node), []).append(of_rank)
    return [("node", node, nodes[node]) for node in _some(sorted(nodes), LINES)]


def _slow(points: dict[int, list[Point]], better: str | None) -> set[int]:
    """Ranks that straggle, by the later half of what they reported."""
    sign = {"higher": 1, "lower": -1}.get(better or "", 0)
    means = {rank: mean for rank, of_rank in points.items() if (mean := tail_mean(of_rank)) is not None}
    if not sign or len(means) < 3:
        return set()
    middle = median(means.values())
    bound = max(SLOWER * abs(middle), FACTOR * median(abs(value - middle) for value in means.values()))
    return {rank for rank, value in means.items() if (middle - value) * sign > bound}


def _some(members: list[int], most: int) -> list[int]:
    """At most so many, evenly distributed, the first and the last among them."""
    if len(members) <= most:
        return members
    return [members[index * (len(members) - 1) // (most - 1)] for index in range(most)]
