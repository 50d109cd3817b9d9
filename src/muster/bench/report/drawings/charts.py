"""Computes the coordinates of everything in a drawing. The templates turn them into SVG.

Own code instead of a chart library: the drawings are in the file itself, are there without JavaScript and in print, follow the
colours of the page, and a page with ten of them stays small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.bench.model.result import Phase, Window
from muster.bench.report.drawings import scale
from muster.bench.report.drawings.timeline import Series, Values
from muster.bench.report.phrase import Phrase, named

LEFT, RIGHT, TOP, BOTTOM = 58, 22, 26, 28
NARROW, WIDE = (490, 230), (1000, 270)  # half of a page, and all of it
DOTS = 60  # up to so many points of a line are marked


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Band:
    """A phase, behind the lines."""

    at: float
    width: float
    name: Phrase
    kind: int


@dataclass(frozen=True)
class Path:
    """A line as SVG writes it."""

    name: Phrase
    line: str
    dots: str
    area: str


@dataclass(frozen=True)
class Paper:
    """The sheet of a drawing: its size and its axes."""

    width: int
    height: int
    x: scale.Scale
    y: scale.Scale
    y_ticks: Sequence[Tick]
    x_ticks: Sequence[Tick]


@dataclass(frozen=True)
class LineChart:
    """Lines over time."""

    id: str
    title: Phrase
    note: Phrase | None
    unit: str
    paper: Paper
    bands: Sequence[Band]
    paths: Sequence[Path]


def line_chart(
    id: str,
    title: Phrase,
    unit: str,
    series: Sequence[Series],
    window: Window,
    phases: Mapping[str, Phase] | None = None,
    note: Phrase | None = None,
    zero: bool = True,
    size: tuple[int, int] = NARROW,
) -> LineChart:
    """Lines over time, with the phases of the run behind them."""
    x = scale.Scale(0.0, window.length, LEFT, size[0] - RIGHT)
    seconds = scale.time_ticks(window.length, 8 if size == WIDE else 5)
    values = [value for line in series for part in (line.values, line.low, line.high) for value in part if value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    x_ticks = [Tick(x(tick), scale.time_label(tick, window.length)) for tick in seconds]
    sheet = paper(size, x, scale.ticks(min(low, 0.0) if zero else low, high), x_ticks)
    return LineChart(id, title, note, unit, sheet, bands(phases or {}, window, sheet), [_path(line, sheet) for line in series])


def paper(size: tuple[int, int], x: scale.Scale, values: list[float], x_ticks: Sequence[Tick] = ()) -> Paper:
    """A sheet with some values on the left."""
    width, height = size
    y = scale.Scale(values[0], values[-1], height - BOTTOM, TOP)
    return Paper(width, height, x, y, [Tick(y(value), scale.tick_label(value, values)) for value in values], x_ticks)


def bands(phases: Mapping[str, Phase], window: Window, sheet: Paper) -> list[Band]:
    """The phases whose beginning and end are known, cut to the window."""
    found = []
    known = [(name, phase.start, phase.end) for name, phase in phases.items() if name != "total" and phase.start and phase.end]
    for kind, (name, *edges) in enumerate(sorted(known, key=lambda phase: phase[1])):
        begin, end = (min(max(edge - window.start, 0.0), window.length) for edge in edges)
        if end > begin:
            found.append(Band(sheet.x(begin), round(sheet.x(end) - sheet.x(begin), 2), named(name), kind % 4))
    return found


def _path(series: Series, sheet: Paper) -> Path:
    few = sum(value is not None for value in series.values) <= DOTS
    dots = "".join(f"M{x:g},{y:g}h0" for x, y in _places(series.times, series.values, sheet)) if few else ""
    return Path(series.name, _strokes(series.times, series.values, sheet), dots, _area(series, sheet))


def _strokes(times: Sequence[float], values: Values, sheet: Paper) -> str:
    """A path that leaves a gap where there is no value."""
    drawn, pen_down = [], False
    for moment, value in zip(times, values, strict=True):
        if value is not None:
            drawn.append(f"{'L' if pen_down else 'M'}{sheet.x(moment):g},{sheet.y(value):g}")
        pen_down = value is not None
    return "".join(drawn)


def _area(series: Series, sheet: Paper) -> str:
    if not series.low:
        return ""
    above, below = _places(series.times, series.high, sheet), _places(series.times, series.low, sheet)
    return "M" + "L".join(f"{x:g},{y:g}" for x, y in [*above, *reversed(below)]) + "Z" if above else ""


def _places(times: Sequence[float], values: Values, sheet: Paper) -> list[tuple[float, float]]:
    return [(sheet.x(t), sheet.y(value)) for t, value in zip(times, values, strict=True) if value is not None]
