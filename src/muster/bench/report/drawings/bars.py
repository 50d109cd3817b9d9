"""Bars of ranks or nodes that show a straggler at a glance; thousands of them become a sorted curve and the worst twenty."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from muster.bench.report.drawings import scale
from muster.bench.report.drawings.charts import LEFT, NARROW, WIDE, Paper, paper
from muster.bench.report.drawings.stragglers import Distribution, Member
from muster.bench.report.figures import figure, percent
from muster.bench.report.phrase import Phrase, joined, same, say

MOST = 96  # bars beside each other
RIGHT = 46  # room for a word about the mean
FEW = 20  # bars that half the width of a page is enough for
WORST = 20
NAMED = 8  # in a sentence


@dataclass(frozen=True)
class Bar:
    at: float
    width: float
    top: float
    height: float
    label: str  # below it; some are left out when there are many
    tip: Phrase
    slow: bool
    missing: bool


@dataclass(frozen=True)
class BarChart:
    """Bars from zero, or a curve of all values from the worst to the best, with the mean across."""

    id: str
    title: Phrase
    note: Phrase | None
    unit: str
    paper: Paper
    bars: Sequence[Bar]
    curve: str
    mean: float | None


def bar_charts(id: str, metric: Phrase, unit: str, distribution: Distribution, who: str) -> list[BarChart]:
    """All of them, or the curve of all and, where one can say which those are, the worst; `who` is `rank` or `node`."""
    members = distribution.members
    chart = partial(_chart, distribution, who, unit)
    if len(members) <= MOST:
        return [chart(id, say(f"by_{who}", metric=metric), note(distribution, who), members)]
    count = f"{len(members):,}"
    charts = [chart(id, say(f"sorted_by_{who}", metric=metric, count=count), note(distribution, who))]
    if distribution.sign:
        charts.append(chart(f"{id}-worst", say("worst_first", count=WORST), None, distribution.worst_first[:WORST]))
    return charts


def _chart(
    distribution: Distribution,
    who: str,
    unit: str,
    id: str,
    title: Phrase,
    words: Phrase | None,
    members: Sequence[Member] = (),
) -> BarChart:
    """The bars of some members; of none, the curve of all. All charts of a distribution have the same axis and mean."""
    values = [*distribution.values, 0.0]
    ticks = scale.ticks(min(values), max(values)) if distribution.values else [0.0, 1.0]
    size = NARROW if len(members) <= FEW else WIDE
    sheet = paper(size, scale.Scale(0, max(1, len(distribution.values) - 1), LEFT, size[0] - RIGHT), ticks)
    bars = _bars(members, sheet, lambda member: tip(member, distribution, who, unit))
    mean = None if distribution.mean is None else sheet.y(distribution.mean)
    return BarChart(id, title, words, unit, sheet, bars, "" if members else _curve(distribution, sheet), mean)


def _bars(members: Sequence[Member], sheet: Paper, tip_of: Callable[[Member], Phrase]) -> list[Bar]:
    y = sheet.y
    step = min(90.0, (sheet.x.end - LEFT) / max(1, len(members)))
    thick = round(min(step * 0.78, 56.0), 2)
    room = 8 + 7 * max((len(str(member.number)) for member in members), default=1)
    every = max(1, math.ceil(room / step))
    bars = []
    for index, member in enumerate(members):
        at = round(LEFT + index * step + (step - thick) / 2, 2)
        shown = y(member.value) if member.value is not None else y(0.0) - 14
        label = str(member.number) if index % every == 0 else ""
        top, tall = min(shown, y(0.0)), round(abs(y(0.0) - shown), 2)
        bars.append(Bar(at, thick, top, tall, label, tip_of(member), member.slow, member.value is None))
    return bars


def _curve(distribution: Distribution, sheet: Paper) -> str:
    """All values from the worst to the best, as an area over zero, no finer than the paper."""
    x, y = sheet.x, sheet.y
    values = [member.value for member in distribution.worst_first if member.value is not None]
    if not values:
        return ""
    every = max(1, len(values) // 500)
    kept = sorted({*range(0, len(values), every), len(values) - 1})
    along = "L".join(f"{x(index):g},{y(values[index]):g}" for index in kept)
    return f"M{x(0):g},{y(0):g}L{along}L{x(len(values) - 1):g},{y(0):g}Z"


def note(distribution: Distribution, who: str) -> Phrase:
    """The picture in words."""
    if distribution.mean is None:
        return say("no_standing")
    low, mean, high = map(figure, (min(distribution.values), distribution.mean, max(distribution.values)))
    parts = [say("standing", mean=mean, low=low, high=high, spread=percent(distribution.spread))]
    if len(distribution.values) == 1:
        parts = [say("one_standing", value=mean)]
    if distribution.missing:
        parts.append(say("missing", what=_names(distribution.missing, who)))
    if distribution.slow:
        parts += [say("slow", what=_names(distribution.slow, who)), say("rule")]
    elif distribution.sign and len(distribution.values) > 2:
        parts.append(say("no_slow"))
    return joined(parts, (" · ", " · "))


def tip(member: Member, distribution: Distribution, who: str, unit: str) -> Phrase:
    """The tooltip of one bar."""
    parts = [say(who, **{who: member.number})]
    if who == "rank":
        parts.append(say("node", node=member.node))
    if member.value is None:
        return joined([*parts, say("no_value"), same(member.reason)])
    parts.append(same(f"{figure(member.value)} {unit}"))
    if distribution.mean:
        parts.append(say("to_mean", difference=percent(member.value / distribution.mean - 1, sign=True)))
    if member.slow:
        parts.append(say("straggler"))
    return joined(parts)


def _names(members: Sequence[Member], who: str) -> Phrase:
    named = [say(who, **{who: member.number}) for member in members[:NAMED]]
    if len(members) > NAMED:
        named.append(say("more", count=f"{len(members) - NAMED:,}"))
    return joined(named)
