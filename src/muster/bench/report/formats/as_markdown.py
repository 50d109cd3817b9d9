"""The report in Markdown, for an issue, a wiki or a mail."""

import re
from collections.abc import Iterator, Sequence

from muster.bench.model.result import Result, RunResult
from muster.bench.report import compare, figures, headline
from muster.bench.report.drawings import stragglers
from muster.bench.report.drawings.bars import MOST, WORST, note
from muster.bench.report.phrase import Phrase, named, say

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(results: Sequence[Result], language: str = "en") -> str:
    """One result, or the comparison of several with each of them below it."""
    lines: list[str] = []
    if len(results) > 1:
        lines += _comparison(results, language)
    for result in results:
        lines += _result(result, language)
    return "\n".join(lines).rstrip() + "\n"


def _result(result: Result, language: str) -> Iterator[str]:
    verdict = say("passed" if result.verdict.passed else "failed").within(language)
    yield from (f"# {_plain(result.name)}", "")
    yield from (f"**{verdict}** · {_plain(result.id)} · {figures.moment(result.created)}", "")
    for problem in result.verdict.problems:
        yield f"- {_plain(problem)}"
    if result.verdict.problems:
        yield ""
    tiles = [headline.main_tile(result), *headline.tiles(result)]
    yield from _table([say("quantity"), say("measured")], [[tile.name, headline.sentence(tile)] for tile in tiles], language)
    checks = headline.checks(result)
    if checks:
        yield from _heading(say("checks"), language)
        rows: list[list[Phrase | str]] = [[check.what, check.measured, check.verdict, check.reason] for check in checks]
        yield from _table([say("target"), say("measured"), say("verdict"), say("reason")], rows, language)
    for number, run in enumerate(result.runs, 1):
        yield from _run(result, number, run, language)


def _run(result: Result, number: int, run: RunResult, language: str) -> Iterator[str]:
    metric = run.metrics.get(result.metric)
    title = say("repeat", number=number) if len(result.runs) > 1 else say("run")
    yield from _heading(title, language, run.run)
    phases: list[list[Phrase | str]] = [
        [named(name), figures.duration(phase.seconds), phase.reason or ""] for name, phase in run.phases.items()
    ]
    if phases:
        yield from _table([say("phase"), say("length"), say("reason")], phases, language)
    for who, distribution in (("node", stragglers.nodes(metric)), ("rank", stragglers.ranks(metric))):
        if len(distribution.members) > 1:
            yield from (_plain(note(distribution, who).within(language)), "")
            yield from _members(who, distribution, named(result.metric), language)


def _members(who: str, distribution: stragglers.Distribution, metric: Phrase, language: str) -> Iterator[str]:
    shown = distribution.members if len(distribution.members) <= MOST else distribution.worst_first[:WORST]
    rows = [[str(one.number), figures.figure(one.value), say("straggler") if one.slow else one.reason] for one in shown]
    if len(shown) < len(distribution.members):
        yield from (say("worst_first", count=len(shown)).within(language), "")
    yield from _table([say(f"table.{who}"), metric, say("reason")], rows, language)


def _comparison(results: Sequence[Result], language: str) -> Iterator[str]:
    yield from (f"# {say('comparison').within(language)}", "")
    heads: list[Phrase | str] = [say("quantity"), *(f"{index}. {result.name}" for index, result in enumerate(results, 1))]
    rows: list[list[Phrase | str]] = [
        [row.name, *(_cell(cell, language) for cell in row.cells)] for row in compare.rows(results)
    ]
    yield from _table(heads, rows, language)
    different = compare.differences(results)[: compare.SHOWN]
    if different:
        yield from _heading(say("differences"), language)
        yield from _table(["", *heads[1:]], [[key, *values] for key, values in different], language)


def _cell(cell: compare.Cell, language: str) -> str:
    if cell.words is None:
        return f"{cell.shown} ({cell.reason})" if cell.reason else cell.shown
    if cell.difference is None:
        return f"{cell.shown}, {cell.words.within(language)}"
    return f"{cell.shown}, {cell.signed}: {cell.words.within(language)}"


def _heading(title: Phrase, language: str, more: str = "") -> tuple[str, str]:
    return f"## {title.within(language)} {_plain(more)}".rstrip(), ""


def _table(heads: Sequence[Phrase | str], rows: Sequence[Sequence[Phrase | str]], language: str) -> Iterator[str]:
    yield _line(heads, language)
    yield "|" + " --- |" * len(heads)
    yield from (_line(row, language) for row in rows)
    yield ""


def _line(cells: Sequence[Phrase | str], language: str) -> str:
    texts = (cell.within(language) if isinstance(cell, Phrase) else cell for cell in cells)
    return "| " + " | ".join(_plain(text) for text in texts) + " |"


def _plain(text: str) -> str:
    """Text of others on one line, without what Markdown would take for its own."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
