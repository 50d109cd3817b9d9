"""The drawings of a comparison: the values of all results beside each other, and their main metric over time."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.bench.model.result import Metric, Result, Statistics, Window
from muster.bench.report.drawings import scale
from muster.bench.report.drawings.charts import WIDE, LineChart, line_chart
from muster.bench.report.drawings.timeline import Bins, Series
from muster.bench.report.figures import with_unit
from muster.bench.report.phrase import Phrase, named, same, say
from muster.bench.report.run_view import window_of

LABEL, ROW, WIDTH, EDGE = 280, 34, 1000, 170


@dataclass(frozen=True)
class ValueBar:
    """The value of one result, with a dot for each of its repeats."""

    y: float
    width: float
    name: str
    shown: str
    dots: Sequence[float]


@dataclass(frozen=True)
class ValueChart:
    id: str
    title: Phrase
    width: int
    height: int
    left: int
    row: int
    bars: Sequence[ValueBar]


def values(results: Sequence[Result]) -> ValueChart:
    """The main metric of each result as a bar from zero."""
    main = results[0].metric
    missing = Metric(None, "", None, (), Statistics())
    metrics = [result.metrics.get(main, missing) for result in results]
    known = [value for metric in metrics for value in [metric.value, *metric.list] if value is not None]
    x = scale.Scale(0.0, max(known, default=1.0) or 1.0, LABEL, WIDTH - EDGE)
    names_differ = len({result.name for result in results}) == len(results)
    bars = [
        ValueBar(
            8 + index * ROW,
            round(max(0.0, x(metric.value) - LABEL), 2) if metric.value is not None else 0.0,
            result.name if names_differ else result.id,
            with_unit(metric.value, metric.unit),
            [x(value) for value in metric.list if value is not None] if len(metric.list) > 1 else [],
        )
        for index, (result, metric) in enumerate(zip(results, metrics, strict=True))
    ]
    return ValueChart("values", named(main), WIDTH, 16 + ROW * len(results), LABEL, ROW, bars)


def over_time(results: Sequence[Result]) -> LineChart | None:
    """The mean over ranks of the main metric in the first run of each result, from their starts on."""
    main = results[0].metric
    lines, longest = [], 0.0
    for number, result in enumerate(results, 1):
        run = next(iter(result.runs), None)
        window = window_of(run) if run else None
        metric = run.metrics.get(main) if run else None
        points = [point for point in metric.series if window.holds(point.t)] if window and metric else []
        if window and points:
            ranks = len({point.rank for point in points})
            coarse = Bins(window, max(1, min(120, len(points) // ranks)))
            means = coarse.means((point.t, point.value) for point in points)
            lines.append(Series(same(f"{number}. {result.name}"), coarse.times, means))
            longest = max(longest, window.length)
    if not lines:
        return None
    unit = results[0].metrics[main].unit if main in results[0].metrics else ""
    title = say("per_rank_over_time", metric=named(main))
    return line_chart("overlay", title, unit, lines, Window(0.0, longest), size=WIDE)
