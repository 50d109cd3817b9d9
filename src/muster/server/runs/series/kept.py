"""Numbers of one metric of one rank that go on and on, of which evenly distributed ones are kept."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST = 400  # that are kept; then every second one goes


def _numbers() -> "array[float]":
    return array("d")


@dataclass
class Kept:
    """Every `stride`-th of `count` numbers, from the number `first * stride` on. NaN stands for no time and no step."""

    count: int = 0
    stride: int = 1
    first: int = 0
    times: "array[float]" = field(default_factory=_numbers)
    steps: "array[float]" = field(default_factory=_numbers)
    values: "array[float]" = field(default_factory=_numbers)

    def rest(self) -> "Kept":
        """An empty one that goes on behind this one."""
        return Kept(self.count, self.stride, self.first + len(self.values))

    def add(self, time: float, step: float, value: float) -> None:
        if self.count % self.stride == 0:
            self.times.append(time)
            self.steps.append(step)
            self.values.append(value)
            if len(self.values) > MOST:
                self._thin()
        self.count += 1

    def followed(self, rest: "Kept") -> "Kept":
        """Another one with both these numbers and those behind them, which may have been thinned more."""
        found = Kept(rest.count, self.stride, self.first, self.times, self.steps, self.values)
        while found.stride < rest.stride:
            found._thin()
        found.times, found.steps = found.times + rest.times, found.steps + rest.steps
        found.values = found.values + rest.values
        while len(found.values) > MOST:
            found._thin()
        return found

    def points(self) -> Iterator[tuple[float, float, float]]:
        return zip(self.times, self.steps, self.values, strict=True)

    def _thin(self) -> None:
        odd = self.first % 2
        self.times, self.steps, self.values = self.times[odd::2], self.steps[odd::2], self.values[odd::2]
        self.first, self.stride = (self.first + odd) // 2, 2 * self.stride
