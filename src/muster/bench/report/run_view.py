"""One run of a result as a report shows it: its drawings, its phases and its ranks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from muster.bench.model.result import Phase, RankUse, RankValue, RunMetric, RunResult, Window
from muster.bench.report.drawings import stragglers, use
from muster.bench.report.drawings.bars import WORST, BarChart, bar_charts
from muster.bench.report.drawings.charts import NARROW, WIDE, LineChart, line_chart
from muster.bench.report.drawings.timeline import recorded
from muster.bench.report.phrase import Phrase, named, say

RANKS = 128  # rows of the table; of more, the slowest
METRICS = 6  # drawings of metrics over time


@dataclass(frozen=True)
class RankRow:
    """A rank in the table."""

    member: stragglers.Member
    versus: float | None  # the mean, as a fraction
    entry: RankValue
    use: RankUse


@dataclass(frozen=True)
class RunView:
    number: int
    run: RunResult
    bars: Sequence[BarChart]
    over_time: Sequence[LineChart]
    use: Sequence[LineChart]
    missing: Sequence[Phrase]
    ranks: Sequence[RankRow]
    rank_count: int

    @property
    def phases(self) -> list[tuple[Phrase, Phase]]:
        order = {name: index for index, name in enumerate(("prepare", "dataload", "proc"))}
        names = sorted(self.run.phases, key=lambda name: (name == "total", order.get(name, 9)))
        return [(named(name), self.run.phases[name]) for name in names]

    @property
    def total(self) -> Phase:
        return self.run.phases.get("total", Phase())


def view(id: str, number: int, run: RunResult, metric: str, scope: str, samples: use.Samples) -> RunView:
    """Everything that is drawn of one run."""
    ranks = stragglers.ranks(run.metrics.get(metric))
    rows = _rows(run, metric, ranks)
    window = window_of(run)
    drawn, missing = use.charts(id, samples, window, run.phases) if window else ([], [])
    return RunView(
        number,
        run,
        _bars(id, run, metric, scope, ranks),
        over_time(id, run, metric, window) if window else [],
        drawn,
        [*(_untimed(run, window) if window else []), *missing],
        rows if len(rows) <= RANKS else rows[:WORST],
        len(ranks.members),
    )


def window_of(run: RunResult) -> Window | None:
    """From the start of the run to its end; None when it never started or has not ended."""
    start, end = run.started, run.ended
    return Window(start, end) if start and end and end > start else None


def over_time(id: str, run: RunResult, main: str, window: Window) -> list[LineChart]:
    """A drawing for each metric that was recorded more than once, the main one first."""
    names = [name for name, metric in run.metrics.items() if _repeated(metric, window)]
    names = sorted(names, key=lambda name: (name != main, name != "accuracy", name))[:METRICS]
    return [
        line_chart(
            f"{id}-over-time-{index}",
            say("metric_over_time", metric=named(name)),
            run.metrics[name].unit if run.metrics[name].unit != "1" else "",
            recorded(run.metrics[name].series, window),
            window,
            run.phases,
            zero=name == main,
            size=WIDE if name == main or len(names) == 1 else NARROW,
        )
        for index, name in enumerate(names)
    ]


def _repeated(metric: RunMetric, window: Window) -> bool:
    """True if a rank reported a metric more than once, so that there is a line to draw."""
    ranks = Counter(point.rank for point in metric.series if window.holds(point.t))
    return any(count > 1 for count in ranks.values())


def _untimed(run: RunResult, window: Window) -> list[Phrase]:
    """The metrics that cannot be drawn over time, because the times of their values are not known."""
    return [
        say("untimed", metric=named(name))
        for name, metric in run.metrics.items()
        if metric.series and not any(window.holds(point.t) for point in metric.series)
    ]


def _bars(id: str, run: RunResult, main: str, scope: str, ranks: stragglers.Distribution) -> list[BarChart]:
    charts: list[BarChart] = []
    if len(ranks.members) > 1:
        charts += bar_charts(f"{id}-ranks", named(main), run.metrics[main].unit, ranks, "rank")
    for name, metric in run.metrics.items():
        nodes = stragglers.nodes(metric)
        if len(nodes.members) > 1 and (name == main or scope == "server"):
            charts += bar_charts(f"{id}-nodes-{len(charts)}", named(name), metric.unit, nodes, "node")
    return charts


def _rows(run: RunResult, metric: str, ranks: stragglers.Distribution) -> list[RankRow]:
    """The ranks in order, or the worst first when there are too many for a table."""
    entries = {entry.rank: entry for entry in run.metrics[metric].ranks} if metric in run.metrics else {}
    uses = {entry.rank: entry for node in run.use for entry in node.ranks}
    members = ranks.members if len(ranks.members) <= RANKS else ranks.worst_first
    rows = []
    for member in members:
        versus = member.value / ranks.mean - 1 if member.value is not None and ranks.mean else None
        rows.append(RankRow(member, versus, entries[member.number], uses.get(member.number, RankUse(member.number))))
    return rows
