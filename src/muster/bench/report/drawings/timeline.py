"""Values over time, recorded by ranks or sampled on nodes, reduced to as many points as a drawing can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster.bench.model.result import SeriesPoint, Window
from muster.bench.report.phrase import Phrase, say
from muster.metrics import numbers

Values = Sequence[float | None]

BINS = 240  # points of one line
LINES = 8  # more than that are drawn as one line with a band


@dataclass(frozen=True)
class Series:
    """A line: seconds since the start and values, with the lowest and highest if it combines several."""

    name: Phrase
    times: Sequence[float]
    values: Values
    low: Values = ()
    high: Values = ()


@dataclass(frozen=True)
class Bins:
    """A window divided into equal parts, each of which is one point of a line."""

    window: Window
    count: int

    @classmethod
    def fit(cls, window: Window, interval: float = 1.0) -> Bins:
        """As many bins as there are samples, but no more than a drawing can show."""
        return cls(window, max(1, min(BINS, int(window.length / interval))))

    @property
    def width(self) -> float:
        return self.window.length / self.count

    @property
    def times(self) -> list[float]:
        """The middle of each bin, in seconds since the start."""
        return [(index + 0.5) * self.width for index in range(self.count)]

    def means(self, points: Iterable[tuple[float | None, float | None]]) -> list[float | None]:
        """The mean of the values in each bin; None where there is none."""
        sums, counts = [0.0] * self.count, [0] * self.count
        for moment, value in points:
            if value is None or moment is None or not self.window.holds(moment):
                continue
            index = min(self.count - 1, int((moment - self.window.start) / self.width))
            sums[index] += value
            counts[index] += 1
        return [numbers.finite(total / count) if count else None for total, count in zip(sums, counts, strict=True)]


def recorded(points: Sequence[SeriesPoint], window: Window) -> list[Series]:
    """A line for each rank, or one with a band when there are many."""
    by_rank: dict[int, list[tuple[float, float | None]]] = {}
    for point in points:
        if point.t is not None and window.holds(point.t):
            by_rank.setdefault(point.rank, []).append((point.t, point.value))
    if len(by_rank) > LINES:
        coarse = Bins(window, max(1, min(60, len(points) // len(by_rank))))
        means = [coarse.means(by_rank[rank]) for rank in sorted(by_rank)]
        return [band(say("band", what=say("band.ranks"), count=len(means)), means, coarse)]
    lines = []
    for rank in sorted(by_rank):
        found = sorted(by_rank[rank], key=lambda pair: pair[0])
        times = [moment - window.start for moment, _ in found]
        lines.append(Series(say("rank", rank=rank), times, [value for _, value in found]))
    return lines


def lines_or_bands(groups: Mapping[Phrase, Sequence[tuple[Phrase, Values]]], bins: Bins) -> list[Series]:
    """A line for each of few; for many, one line with a band for each group."""
    if sum(map(len, groups.values())) <= LINES:
        return [Series(name, bins.times, values) for group in groups.values() for name, values in group]
    return [
        band(say("band", what=what, count=len(group)), [values for _, values in group], bins) for what, group in groups.items()
    ]


def band(name: Phrase, many: Sequence[Values], bins: Bins) -> Series:
    """The mean of many lines, with the lowest and the highest of them."""
    columns = [[value for value in column if value is not None] for column in zip(*many, strict=True)]
    return Series(
        name,
        bins.times,
        [numbers.finite(numbers.mean(column)) if column else None for column in columns],
        [min(column, default=None) for column in columns],
        [max(column, default=None) for column in columns],
    )
