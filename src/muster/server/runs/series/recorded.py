"""Metrics that ranks recorded with `muster.record` or wrote into their logs, such as loss: by rank, by node or as a mean."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

from muster.job import Job
from muster.metrics.mllog import UNITS
from muster.metrics.sources import record_files
from muster.records import clocks
from muster.records.layout import AttemptDir
from muster.records.untrusted import number, whole
from muster.server.runs.series.logged import Logged
from muster.server.runs.series.model import By, Chart, Line, Over
from muster.server.runs.series.thinned import Grid, Point, objects, some, tail_mean

BUDGET = 12 << 20  # bytes that are read of all ranks together
LEAST = 1 << 15  # of one rank
RANKS = 256  # that are read
LINES = 32  # that are shown
METRICS = 24
NAME = 60  # characters
FIRST = ("loss", "throughput", "accuracy")
SLOWER, FACTOR = 0.02, 5.0  # a straggler is behind the median by that part of it, and by so many median deviations
_Timed = tuple[float | None, float | None, float]  # time, step, value


@dataclass
class _Metric:
    unit: str = ""
    stepped: bool = True  # each of its points has a step
    timed: bool = True  # each of its points has a time
    by_rank: dict[int, list[_Timed]] = field(default_factory=dict)
    left_out: int = 0  # ranks that were not read

    def add(self, rank: int, point: _Timed) -> None:
        self.timed, self.stepped = self.timed and point[0] is not None, self.stepped and point[1] is not None
        self.by_rank.setdefault(rank, []).append(point)

    def axis(self, over: Over) -> Over:
        """What it is drawn over: matches of a pattern have no times, and some records no steps."""
        return "step" if self.stepped and (over == "step" or not self.timed) else "time"

    def points(self, rank: int, over: Over, start: float) -> list[Point]:
        if self.axis(over) == "step":
            return [(step, value) for _, step, value in self.by_rank[rank] if step is not None]
        return [(time - start, value) for time, _, value in self.by_rank[rank] if time is not None]


def charts(attempt: AttemptDir, job: Job, by: By, over: Over, start: float, logged: Logged) -> list[Chart]:
    """One chart for each metric, over steps where all of its points have one; times are counted from `start`."""
    files = {rank: paths for rank, paths in record_files(attempt, job).items() if rank >= 0}
    ranks = some(sorted(files), RANKS)
    found = _read(attempt, {rank: files[rank] for rank in ranks}, job)
    for metric in found.values():
        metric.left_out = len(files) - len(ranks)
    _add_logged(found, logged, attempt, job)
    order = sorted(found, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    made = (_chart(name, found[name], job, by, over, start) for name in order)
    return list(islice((chart for chart in made if chart is not None), METRICS))


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
    metric.unit = metric.unit or (unit[:20] if isinstance(unit, str) else "")
    metric.add(rank, (time - ahead, step, value))


def _add_logged(found: dict[str, _Metric], logged: Logged, attempt: AttemptDir, job: Job) -> None:
    """Adds what ranks wrote into their logs and did not record. A single number is no course, such as a setting in an event."""
    ahead = clocks.ahead(attempt)
    recorded = {(name, rank) for name, metric in found.items() for rank in metric.by_rank}
    for rank, by_name in sorted(logged.by_rank.items()):
        of_node = ahead.get(rank // max(1, job.ranks_per_node), 0.0)
        for name, kept in by_name.items():
            if (name, rank) in recorded or len(kept.values) < 2:
                continue
            metric = found.setdefault(name, _Metric(job.metric(name).unit or UNITS.get(name, ""), left_out=logged.left_out))
            for time, step, value in kept.points():
                metric.add(rank, (None if math.isnan(time) else time - of_node, None if math.isnan(step) else step, value))


def _chart(name: str, metric: _Metric, job: Job, by: By, over: Over, start: float) -> Chart | None:
    found = {rank: metric.points(rank, over, start) for rank in sorted(metric.by_rank)}
    points = {rank: of_rank for rank, of_rank in found.items() if of_rank}
    if not points:
        return None
    grid = Grid.over([place for of_rank in points.values() for place, _ in of_rank])
    slow = _slow(points, job.metric(name).better)
    groups = _groups(points, job, by, slow)
    lines = [Line(kind, index, *grid.mean(members), slow=kind == "rank" and index in slow) for kind, index, members in groups]
    drawn = {line.index for line in lines} if by == "rank" else set(points)
    unseen = metric.left_out + (len(points) - len(drawn) if by == "rank" else 0)
    return Chart(name, metric.unit, metric.axis(over), lines, sorted(slow), unseen)


def _groups(points: dict[int, list[Point]], job: Job, by: By, slow: set[int]) -> list[tuple[str, int, list[list[Point]]]]:
    """The lines of a chart: kind, number, and the points of each of its ranks."""
    if by == "rank":
        shown = sorted({*some(list(points), LINES - min(len(slow), LINES // 2)), *sorted(slow)[: LINES // 2]})
        return [("rank", rank, [points[rank]]) for rank in shown]
    if by == "mean":
        return [("mean", 0, list(points.values()))]
    nodes: dict[int, list[list[Point]]] = {}
    for rank, of_rank in points.items():
        nodes.setdefault(rank // max(1, job.ranks_per_node), []).append(of_rank)
    return [("node", node, nodes[node]) for node in some(sorted(nodes), LINES)]


def _slow(points: dict[int, list[Point]], better: str | None) -> set[int]:
    """Ranks that straggle, by the later half of what they reported."""
    sign = {"higher": 1, "lower": -1}.get(better or "", 0)
    means = {rank: mean for rank, of_rank in points.items() if (mean := tail_mean(of_rank)) is not None}
    if not sign or len(means) < 3:
        return set()
    middle = median(means.values())
    bound = max(SLOWER * abs(middle), FACTOR * median(abs(value - middle) for value in means.values()))
    return {rank for rank, value in means.items() if (middle - value) * sign > bound}
