"""Bars of ranks or nodes that show a straggler at a glance; thousands of them become a sorted curve and the worst twenty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from muster.bench.report.drawings import scale
from muster.bench.report.drawings.charts import BOTTOM, LEFT, NARROW, TOP, WIDE, Tick
from muster.bench.report.drawings.stragglers import Place, Standing
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
    width: int
    height: int
    y_ticks: Sequence[Tick]
    bars: Sequence[Bar]
    curve: str
    mean: float | None

    left: int = LEFT
    top: int = TOP

    @property
    def right(self) -> int:
        return self.width - RIGHT

    @property
    def bottom(self) -> int:
        return self.height - BOTTOM


def bar_charts(id: str, metric: Phrase, unit: str, standing: Standing, who: str) -> list[BarChart]:
    """All of them, or the curve of all and, where one can say which those are, the worst; `who` is `rank` or `node`."""
    places = standing.places
    drawing = _Drawing(standing, who, unit)
    if len(places) <= MOST:
        return [drawing.chart(id, say(f"by_{who}", metric=metric), note(standing, who), places)]
    count = f"{len(places):,}"
    charts = [drawing.chart(id, say(f"sorted_by_{who}", metric=metric, count=count), note(standing, who))]
    if standing.sign:
        charts.append(drawing.chart(f"{id}-worst", say("worst_first", count=WORST), None, standing.worst_first[:WORST]))
    return charts


class _Drawing:
    """Draws the values of one standing; all of its charts have the same axis and the same mean."""

    def __init__(self, standing: Standing, who: str, unit: str) -> None:
        self._standing, self._who, self._unit = standing, who, unit
        values = [*standing.values, 0.0]
        self._ticks = scale.ticks(min(values), max(values)) if standing.values else [0.0, 1.0]

    def chart(self, id: str, title: Phrase, words: Phrase | None, places: Sequence[Place] = ()) -> BarChart:
        """The bars of some places; of none, the curve of all."""
        width, height = NARROW if len(places) <= FEW else WIDE
        y = scale.Scale(self._ticks[0], self._ticks[-1], height - BOTTOM, TOP)
        mean = self._standing.mean
        return BarChart(
            id,
            title,
            words,
            self._unit,
            width,
            height,
            [Tick(y(tick), scale.tick_label(tick, self._ticks)) for tick in self._ticks],
            self._bars(places, y, width),
            "" if places else self._curve(y, width),
            None if mean is None else y(mean),
        )

    def _bars(self, places: Sequence[Place], y: scale.Scale, width: int) -> list[Bar]:
        step = min(90.0, (width - LEFT - RIGHT) / max(1, len(places)))
        thick = round(min(step * 0.78, 56.0), 2)
        room = 8 + 7 * max((len(str(place.number)) for place in places), default=1)
        every = max(1, math.ceil(room / step))
        bars = []
        for index, place in enumerate(places):
            at = round(LEFT + index * step + (step - thick) / 2, 2)
            shown = y(place.value) if place.value is not None else y(0.0) - 14
            label = str(place.number) if index % every == 0 else ""
            words = tip(place, self._standing, self._who, self._unit)
            top, tall = min(shown, y(0.0)), round(abs(y(0.0) - shown), 2)
            bars.append(Bar(at, thick, top, tall, label, words, place.slow, place.value is None))
        return bars

    def _curve(self, y: scale.Scale, width: int) -> str:
        """All values from the worst to the best, as an area over zero, no finer than the paper."""
        values = [place.value for place in self._standing.worst_first if place.value is not None]
        if not values:
            return ""
        x = scale.Scale(0, max(1, len(values) - 1), LEFT, width - RIGHT)
        every = max(1, len(values) // 500)
        kept = sorted({*range(0, len(values), every), len(values) - 1})
        along = "L".join(f"{x(index):g},{y(values[index]):g}" for index in kept)
        return f"M{x(0):g},{y(0):g}L{along}L{x(len(values) - 1):g},{y(0):g}Z"


def note(standing: Standing, who: str) -> Phrase:
    """The picture in words."""
    if standing.mean is None:
        return say("no_standing")
    low, mean, high = map(figure, (min(standing.values), standing.mean, max(standing.values)))
    parts = [say("standing", mean=mean, low=low, high=high, spread=percent(standing.spread))]
    if len(standing.values) == 1:
        parts = [say("one_standing", value=mean)]
    if standing.missing:
        parts.append(say("missing", what=_names(standing.missing, who)))
    if standing.slow:
        parts += [say("slow", what=_names(standing.slow, who)), say("rule")]
    elif standing.sign and len(standing.values) > 2:
        parts.append(say("no_slow"))
    return joined(parts, (" · ", " · "))


def tip(place: Place, standing: Standing, who: str, unit: str) -> Phrase:
    """What is to be said of one bar."""
    parts = [say(who, **{who: place.number})]
    if who == "rank":
        parts.append(say("node", node=place.node))
    if place.value is None:
        return joined([*parts, say("no_value"), same(place.reason)])
    parts.append(same(f"{figure(place.value)} {unit}"))
    if standing.mean:
        parts.append(say("to_mean", difference=percent(place.value / standing.mean - 1, sign=True)))
    if place.slow:
        parts.append(say("straggler"))
    return joined(parts)


def _names(places: Sequence[Place], who: str) -> Phrase:
    named = [say(who, **{who: place.number}) for place in places[:NAMED]]
    if len(places) > NAMED:
        named.append(say("more", count=f"{len(places) - NAMED:,}"))
    return joined(named)
