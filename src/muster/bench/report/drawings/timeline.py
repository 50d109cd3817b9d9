"""Values over time: what ranks recorded and what the sampler saw, as few points as a drawing can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.bench.model import SeriesPoint
from muster.bench.report.phrase import Phrase, say
from muster.metrics import numbers

Sample = Mapping[str, Any]
Pick = Callable[[Sample], float | None]
Values = Sequence[float | None]

BINS = 240  # points of one line
LINES = 8  # more than that are drawn as one line with a band


@dataclass(frozen=True)
class Series:
    """A line: seconds since the start and values, with the lowest and highest where it stands for many."""

    name: Phrase
    times: Sequence[float]
    values: Values
    low: Values = ()
    high: Values = ()


@dataclass(frozen=True)
class Window:
    """The stretch of time that a drawing shows, in equal bins."""

    start: float
    end: float
    count: int

    @classmethod
    def of(cls, start: float, end: float, interval: float = 1.0) -> Window:
        return cls(start, end, max(1, min(BINS, int((end - start) / interval))))

    @property
    def length(self) -> float:
        return self.end - self.start

    @property
    def bin(self) -> float:
        return self.length / self.count

    @property
    def times(self) -> list[float]:
        """The middle of each bin, in seconds since the start."""
        return [(index + 0.5) * self.bin for index in range(self.count)]

    def holds(self, moment: float | None) -> bool:
        """Whether a moment lies in it; the numbers of a log have none, and a clock that was set may have shown any."""
        return moment is not None and self.start <= moment <= self.end

    def means(self, points: Iterable[tuple[float | None, float | None]]) -> list[float | None]:
        """The mean of the values in each bin; None where there is none."""
        sums, counts = [0.0] * self.count, [0] * self.count
        for moment, value in points:
            if value is None or moment is None or not self.holds(moment):
                continue
            index = min(self.count - 1, int((moment - self.start) / self.bin))
            sums[index] += value
            counts[index] += 1
        return [numbers.finite(total / count) if count else None for total, count in zip(sums, counts, strict=True)]


def sampled(samples: Iterable[Sample], pick: Pick, window: Window) -> list[float | None]:
    """One quantity of one node."""
    return window.means((line["t"], pick(line)) for line in samples)


def recorded(points: Sequence[SeriesPoint], window: Window) -> list[Series]:
    """What ranks recorded: a line for each, or one with a band when there are many."""
    by_rank: dict[int, list[tuple[float, float | None]]] = {}
    for point in points:
        if point.t is not None and window.holds(point.t):
            by_rank.setdefault(point.rank, []).append((point.t, point.value))
    if len(by_rank) > LINES:
        coarse = Window(window.start, window.end, max(1, min(60, len(points) // len(by_rank))))
        means = [coarse.means(by_rank[rank]) for rank in sorted(by_rank)]
        return [band(say("band", what=say("band.ranks"), count=len(means)), means, coarse)]
    lines = []
    for rank in sorted(by_rank):
        found = sorted(by_rank[rank], key=lambda pair: pair[0])
        times = [moment - window.start for moment, _ in found]
        lines.append(Series(say("rank", rank=rank), times, [value for _, value in found]))
    return lines


def lines_or_bands(groups: Mapping[Phrase, Sequence[tuple[Phrase, Values]]], window: Window) -> list[Series]:
    """A line for each of few; for many, one line with a band for each group."""
    if sum(map(len, groups.values())) <= LINES:
        return [Series(name, window.times, values) for group in groups.values() for name, values in group]
    return [
        band(say("band", what=what, count=len(group)), [values for _, values in group], window)
        for what, group in groups.items()
    ]


def band(name: Phrase, many: Sequence[Values], window: Window) -> Series:
    """The mean of many lines, with the lowest and the highest of them."""
    columns = [[value for value in column if value is not None] for column in zip(*many, strict=True)]
    return Series(
        name,
        window.times,
        [numbers.finite(numbers.mean(column)) if column else None for column in columns],
        [min(column, default=None) for column in columns],
        [max(column, default=None) for column in columns],
    )
