"""One run of a result as a report shows it: its drawings, its phases and its ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.bench.report.drawings import stragglers, use
from muster.bench.report.drawings.bars import WORST, BarChart, bar_charts
from muster.bench.report.drawings.charts import NARROW, WIDE, LineChart, line_chart
from muster.bench.report.drawings.timeline import recorded
from muster.bench.report.phrase import Phrase, named, say
from muster.bench.samples import Window

Run = Mapping[str, Any]

RANKS = 128  # rows of the table; of more, the slowest
METRICS = 6  # drawings of metrics over time


@dataclass(frozen=True)
class RankRow:
    """A rank in the table."""

    place: stragglers.Place
    versus: float | None  # the mean, as a fraction
    entry: Mapping[str, Any]
    use: Mapping[str, Any]


@dataclass(frozen=True)
class RunView:
    number: int
    run: Run
    bars: Sequence[BarChart]
    over_time: Sequence[LineChart]
    use: Sequence[LineChart]
    missing: Sequence[Phrase]
    ranks: Sequence[RankRow]
    rank_count: int

    @property
    def phases(self) -> list[tuple[Phrase, Mapping[str, Any]]]:
        order = {name: index for index, name in enumerate(("prepare", "dataload", "proc"))}
        names = sorted(self.run["phases"], key=lambda name: (name == "total", order.get(name, 9)))
        return [(named(name), self.run["phases"][name]) for name in names]


def view(id: str, number: int, run: Run, metric: str, scope: str, samples: use.Samples) -> RunView:
    """Everything that is drawn of one run."""
    ranks = stragglers.ranks(run["metrics"].get(metric) or {})
    rows = _rows(run, metric, ranks)
    window = window_of(run)
    drawn, missing = use.charts(id, samples, window, run["phases"]) if window else ([], [])
    return RunView(
        number,
        run,
        _bars(id, run, metric, scope, ranks),
        over_time(id, run, metric, window) if window else [],
        drawn,
        [*(_untimed(run, window) if window else []), *missing],
        rows if len(rows) <= RANKS else rows[:WORST],
        len(ranks.places),
    )


def window_of(run: Run) -> Window | None:
    """From the start of the run to its end; None when it never started or has not ended."""
    start, end = run.get("started"), run.get("ended")
    return Window(start, end) if start and end and end > start else None


def over_time(id: str, run: Run, main: str, window: Window) -> list[LineChart]:
    """A drawing for each metric that was recorded more than once, the main one first."""
    names = [name for name, metric in run["metrics"].items() if _repeated(metric, window)]
    names = sorted(names, key=lambda name: (name != main, name != "accuracy", name))[:METRICS]
    charts: list[LineChart] = []
    for name in names:
        metric = run["metrics"][name]
        charts.append(
            line_chart(
                f"{id}-over-time-{len(charts)}",
                say("metric_over_time", metric=named(name)),
                metric["unit"] if metric["unit"] != "1" else "",
                recorded(metric["series"], window),
                window,
                run["phases"],
                zero=name == main,
                size=WIDE if name == main or len(names) == 1 else NARROW,
            )
        )
    return charts


def _repeated(metric: Mapping[str, Any], window: Window) -> bool:
    """Whether a rank reported a metric more than once: a single value has no course."""
    ranks = Counter(point["rank"] for point in metric.get("series") or () if window.holds(point["t"]))
    return any(count > 1 for count in ranks.values())


def _timed(metric: Mapping[str, Any], window: Window) -> bool:
    """Whether anything of a metric can be drawn over time."""
    return any(window.holds(point["t"]) for point in metric.get("series") or ())


def _untimed(run: Run, window: Window) -> list[Phrase]:
    """The metrics that cannot be drawn, because nothing tells when their values were reported."""
    names = [name for name, metric in run["metrics"].items() if metric.get("series") and not _timed(metric, window)]
    return [say("untimed", metric=named(name)) for name in names]


def _bars(id: str, run: Run, main: str, scope: str, ranks: stragglers.Standing) -> list[BarChart]:
    charts: list[BarChart] = []
    metric = run["metrics"].get(main) or {}
    if len(ranks.places) > 1:
        charts += bar_charts(f"{id}-ranks", named(main), metric["unit"], ranks, "rank")
    for name, entry in run["metrics"].items():
        nodes = stragglers.nodes(entry)
        if len(nodes.places) > 1 and (name == main or scope == "server"):
            charts += bar_charts(f"{id}-nodes-{len(charts)}", named(name), entry["unit"], nodes, "node")
    return charts


def _rows(run: Run, metric: str, ranks: stragglers.Standing) -> list[RankRow]:
    """The ranks in order, or the worst first when there are too many for a table."""
    entries = {entry["rank"]: entry for entry in (run["metrics"].get(metric) or {}).get("ranks", ())}
    uses = {entry["rank"]: entry for node in run["use"] for entry in node.get("ranks", ())}
    places = ranks.places if len(ranks.places) <= RANKS else ranks.worst_first
    rows = []
    for place in places:
        versus = place.value / ranks.mean - 1 if place.value is not None and ranks.mean else None
        rows.append(RankRow(place, versus, entries[place.number], uses.get(place.number, {})))
    return rows
