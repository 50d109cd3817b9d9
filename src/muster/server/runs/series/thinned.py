"""Reading parts of long files of JSON lines, and averaging points, so that a chart costs the same however long a run is."""

import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from muster.records.untrusted import open_regular, parse_json

WINDOW = 1 << 14  # bytes of a part
BINS = 300  # points of a line
Point = tuple[float, float]


def objects(path: str, below: str, budget: int) -> Iterator[dict[str, Any]]:
    """The objects of a file: all of them, or those in parts that are evenly distributed over it, from beginning to end.

    Raises OSError.
    """
    with open_regular(path, below) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= budget:
            yield from _parsed(file.read(size).split(b"\n")[:-1])
            return
        count = max(2, budget // WINDOW)
        for index in range(count):
            start = (size - WINDOW) * index // (count - 1)
            file.seek(start)
            lines = file.read(WINDOW).split(b"\n")
            yield from _parsed(lines[1 if start else 0 : -1])


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            found = parse_json(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


@dataclass(frozen=True)
class Grid:
    """Places on the axis of a chart, to which points are averaged."""

    start: float
    width: float

    @classmethod
    def over(cls, places: Sequence[float]) -> "Grid":
        low, high = min(places), max(places)
        distinct = len(set(places)) if len(places) < 10 * BINS else BINS + 1
        if distinct <= BINS:
            return cls(low, 0.0)  # each place stays as it is
        return cls(low, (high - low) / BINS or 1.0)

    def averaged(self, points: Iterable[Point]) -> tuple[list[float], list[float]]:
        """The means of points at each place, in order."""
        sums: dict[float, tuple[float, int]] = {}
        for place, value in points:
            if math.isfinite(value) and math.isfinite(place):
                at = place if not self.width else self.start + (int((place - self.start) / self.width) + 0.5) * self.width
                total, count = sums.get(at, (0.0, 0))
                sums[at] = (total + value, count + 1)
        order = sorted(sums)
        return order, [sums[at][0] / sums[at][1] for at in order]

    def mean(self, members: Iterable[Iterable[Point]]) -> tuple[list[float], list[float]]:
        """The mean of several lines wherever at least half of them go on, in order.

        Ranks that report at different steps, and nodes that are sampled at different times, are interpolated between their
        own points, and keep their first and last values before and after: the line would jump between them otherwise.
        """
        lines = [line for points in members if (line := self.averaged(points))[0]]
        if len(lines) == 1:
            return lines[0]
        order = sorted({place for places, _ in lines for place in places})
        kept = [place for place in order if 2 * sum(at[0] <= place <= at[-1] for at, _ in lines) >= len(lines)] or order
        return kept, [sum(_value(places, values, place) for places, values in lines) / len(lines) for place in kept]


def _value(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """The value of a line at a place: between two points on the way from one to the other."""
    after = bisect_left(places, place)
    if after == len(places):
        return values[-1]
    if after == 0 or places[after] == place:
        return values[after]
    part = (place - places[after - 1]) / (places[after] - places[after - 1])
    return values[after - 1] + part * (values[after] - values[after - 1])


def tail_mean(points: Sequence[Point]) -> float | None:
    """The mean of the later half of the points, for comparisons."""
    if not points:
        return None
    ordered = sorted(points)
    later = ordered[bisect_right(ordered, (ordered[-1][0] / 2 + ordered[0][0] / 2, -math.inf)) :] or ordered
    return sum(value for _, value in later) / len(later)


def some(members: list[int], most: int) -> list[int]:
    """At most so many, evenly distributed, the first and the last among them."""
    if len(members) <= most:
        return members
    return [members[index * (len(members) - 1) // (most - 1)] for index in range(most)]
