"""The report in short for a terminal: the same numbers, with bars and curves made of letters."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

from muster.bench.model.result import Result, RunResult
from muster.bench.report import compare, figures, headline
from muster.bench.report.drawings import stragglers, timeline, use
from muster.bench.report.drawings.bars import note
from muster.bench.report.phrase import Phrase, named, say
from muster.bench.report.run_view import window_of
from muster.metrics import numbers
from muster.records.untrusted import printable

Paint = Callable[[str, str], str]  # a text in a colour: good, bad, quiet or bold

BLOCKS = "▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉"
MOST = 16  # bars below each other
WORST = 5
CURVE = 48  # letters of a curve at most
PROBLEMS = 10


def text(
    results: Sequence[Result],
    samples: Mapping[str, use.Samples],
    language: str = "en",
    width: int = 80,
    paint: Paint = lambda text, colour: text,
) -> str:
    """One result, or the comparison of several."""
    writer = _Writer(language, width, paint)
    lines = writer.comparison(results) if len(results) > 1 else writer.result(results[0], samples)
    return "\n".join(line.rstrip() for line in lines) + "\n"


class _Writer:
    """Writes for one reader: a language, a width, and colours or none."""

    def __init__(self, language: str, width: int, paint: Paint) -> None:
        self._language, self._width, self._paint = language, width, paint

    def result(self, result: Result, samples: Mapping[str, use.Samples]) -> Iterator[str]:
        yield self._headline(result)
        problems = result.verdict.problems
        for problem in problems[:PROBLEMS]:
            yield from self._fold(f"  ✗ {printable(problem)}")
        if len(problems) > PROBLEMS:
            yield "  " + self._say(say("more", count=len(problems) - PROBLEMS))
        rows = [(tile.name, headline.sentence(tile)) for tile in [headline.main_tile(result), *headline.tiles(result)]]
        rows += [(check.what, _verdict(check)) for check in headline.checks(result)]
        yield from self._rows(rows)
        for run in result.runs[:1]:
            yield from self._curves(run, result.metric, samples.get(run.run, {}))
            metric = run.metrics.get(result.metric)
            for who, distribution in (("node", stragglers.nodes(metric)), ("rank", stragglers.ranks(metric))):
                if len(distribution.members) > 1 and distribution.values:
                    yield from self._bars(who, distribution, named(result.metric))

    def comparison(self, results: Sequence[Result]) -> Iterator[str]:
        for number, result in enumerate(results, 1):
            yield f"{number}. {self._headline(result)}"
        for row in compare.rows(results):
            if all(cell.value is None for cell in row.cells):
                continue
            yield self._paint(self._say(row.name), "bold")
            for number, cell in enumerate(row.cells, 1):
                yield from self._fold(f"  {number}. {printable(self._cell(cell))}", 5)
        different = compare.differences(results)
        if different:
            yield self._paint(self._say(say("differences")), "bold")
            for key, values in different[:PROBLEMS]:
                yield from self._fold(f"  {printable(key)}: {printable(' | '.join(values))}")
        if len(different) > PROBLEMS:
            yield "  " + self._say(say("more", count=len(different) - PROBLEMS))

    def _headline(self, result: Result) -> str:
        passed = result.verdict.passed
        verdict = self._say(say("passed" if passed else "failed"))
        return f"{self._paint(('✓ ' if passed else '✗ ') + verdict, 'good' if passed else 'bad')}  {printable(result.id)}"

    def _cell(self, cell: compare.Cell) -> str:
        if cell.value is None:
            return f"{figures.NONE} {cell.reason}".strip()
        if cell.words is None:
            return cell.shown
        words = self._say(cell.words)
        return f"{cell.shown}  {words}" if cell.difference is None else f"{cell.shown}  {cell.signed}, {words}"

    def _curves(self, run: RunResult, metric: str, samples: use.Samples) -> Iterator[str]:
        """The main metric, accuracy and power over time, on one line each."""
        window = window_of(run)
        if window is None:
            return
        bins = timeline.Bins(window, min(CURVE, max(8, self._width - 50)))
        rows: list[tuple[Phrase, timeline.Values]] = []
        for name in dict.fromkeys((metric, "accuracy")):
            points = run.metrics[name].series if name in run.metrics else ()
            rows.append((named(name), _held(bins.means((point.t, point.value) for point in points))))
        rows += [(label, _held(values)) for label, values in use.totals(samples, bins)]
        for label, values in rows:
            known = [value for value in values if value is not None]
            if len(known) > 1:
                ends = f"{figures.figure(min(known))} … {figures.figure(max(known))}"
                yield f"  {_padded(self._say(label), 22)}{spark(values)}  {self._paint(ends, 'quiet')}"

    def _bars(self, who: str, distribution: stragglers.Distribution, metric: Phrase) -> Iterator[str]:
        many = len(distribution.members) > MOST
        key = f"sorted_by_{who}" if many else f"by_{who}"
        yield self._paint(self._say(say(key, metric=metric, count=f"{len(distribution.members):,}")), "bold")
        yield from self._fold("  " + self._say(note(distribution, who)), 2)
        if many:
            ordered = [member.value for member in distribution.worst_first if member.value is not None]
            shown = [ordered[index] for index in numbers.thinned(len(ordered), min(CURVE, self._width - 4))]
            yield "  " + spark(shown, low=0.0)
        top = max(map(abs, distribution.values)) or 1.0
        room = max(8, min(CURVE, self._width - 42))
        for member in distribution.worst_first[:WORST] if many else distribution.members:
            label = _padded(self._say(say(who, **{who: member.number})), 12)
            if member.value is None:
                yield f"  {label}{self._paint('?', 'bad')} {printable(member.reason)}"
                continue
            mark = self._paint(" ▼ " + self._say(say("straggler")), "bad") if member.slow else ""
            yield f"  {label}{bar(member.value / top, room)} {figures.figure(member.value)}{mark}"

    def _rows(self, rows: Sequence[tuple[Phrase, Phrase]]) -> Iterator[str]:
        names = [self._say(name) for name, _ in rows]
        width = min(48, max(map(wide, names)))
        for name, (_, value) in zip(names, rows, strict=True):
            yield from self._fold(f"  {_padded(name, width)}  {printable(self._say(value))}", width + 4)

    def _say(self, phrase: Phrase) -> str:
        return phrase.within(self._language)

    def _fold(self, line: str, indent: int = 4) -> Iterator[str]:
        """A line as several that are no wider than the terminal; nothing of it is lost."""
        while wide(line) > self._width:
            room = next(at for at in range(len(line), 0, -1) if wide(line[:at]) <= self._width)
            at = line.rfind(" ", indent + 1, room + 1)
            at = at if at > 0 else room
            yield line[:at]
            line = " " * indent + line[at:].lstrip()
        yield line


def spark(values: timeline.Values, low: float | None = None) -> str:
    """A curve of eight heights; a gap where there is no value."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    bottom = min(known) if low is None else low
    reach = max(known) / 2 - bottom / 2  # halves, because a difference of huge values is not finite
    heights = [None if value is None else (value / 2 - bottom / 2) / reach if reach else 0.5 for value in values]
    return "".join(" " if height is None else BLOCKS[min(7, int(height * 8))] for height in heights)


def bar(fraction: float, room: int) -> str:
    """A bar that is exact to an eighth of a letter."""
    eighths = max(0, round(fraction * room * 8))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()).ljust(room)


def wide(line: str) -> int:
    """The width of a text on a terminal, in columns."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def _padded(line: str, width: int) -> str:
    return line + " " * (width - wide(line))


def _held(values: timeline.Values) -> list[float | None]:
    """A value holds until the next one."""
    known = [index for index, value in enumerate(values) if value is not None]
    held: list[float | None] = []
    for index, value in enumerate(values):
        held.append(held[-1] if value is None and known and known[0] < index < known[-1] else value)
    return held


def _verdict(check: headline.Check) -> Phrase:
    mark = "✓" if check.met else "✗" if check.met is not None else "?"
    verdict = check.verdict
    tail = f" ({check.reason})" if check.reason else ""
    return Phrase(f"{mark} {check.measured}, {verdict.en}{tail}", f"{mark} {check.measured}，{verdict.zh}{tail}")
