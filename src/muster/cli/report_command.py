"""`muster report`: what runs were worth, as a page, a table or data."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli import exporting, output, places
from muster.cli.main import language as terminal_language
from muster.cli.options import RunName, as_json
from muster.launch.run_store import RunStore
from muster.records.files import write_text
from muster.records.layout import BenchDir, home

if TYPE_CHECKING:
    from muster.bench.report.sources import Source

COLOURS: dict[str, dict[str, Any]] = {
    "good": {"fg": "green", "bold": True},
    "bad": {"fg": "red"},
    "quiet": {"dim": True},
    "bold": {"bold": True},
}


class Reported(RunName):
    """The id of a run or a bench, `last`, or a file."""

    def known(self, server: str | None) -> list[str]:
        return [*RunStore(home()).bench_ids(), *super().known(server)]


@click.command("report")
@click.argument("names", metavar="RUN...", nargs=-1, required=True, type=Reported())
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the page to FILE.")
@click.option("--csv", "form", flag_value="csv", help="Print a table of every value of every rank, node and run.")
@click.option("--md", "form", flag_value="md", help="Print Markdown.")
@as_json
@click.option("-o", "target", type=click.Path(path_type=Path), metavar="FILE", help="Write what would be printed to FILE.")
@exporting.options
@places.server_option
@click.option("--language", type=click.Choice(["en", "zh"]), help="Set the language.  [default: that of the terminal]")
def command(
    names: tuple[str, ...],
    html: Path | None,
    form: str | None,
    json: bool,
    target: Path | None,
    server: str | None,
    language: str | None,
    **bundling: Any,
) -> None:
    """Show what runs were worth: the result in short, and a page with everything about it.

    RUN is the id of a bench or a run, `last`, a bundle, or a result.json; several are compared with the first. The page
    is one file that needs no network. Without --html it is written beside the record of the bench or the run; for
    files and comparisons, into this directory.

    \b
    Examples:
      muster report last
      muster report resnet50-20261115-130100-abcd --html report.html --language zh
      muster report before.tar.gz after.tar.gz
      muster report last --csv -o values.csv
      muster report last --export result.tar.gz --sign
    """
    if json and form:
        raise click.UsageError(f"--json and --{form} print different things; choose one")
    form = "json" if json else form
    if target is not None and form is None:
        raise click.UsageError("-o goes with --csv, --md or --json; --html FILE names the page")
    bundle = exporting.checked(**bundling)
    chosen = places.chosen(server)
    sources = _sources(names, RunStore(home())) if chosen is None else _fetched(names, chosen)
    if bundle.target is not None:
        bundle.write(_only_bench(sources))
    language = language or terminal_language()
    if form is not None:
        _print(_data(form, sources, language), target)
    else:
        _show(sources, language)
    if html is not None or form is None:
        path = html or _default_path(sources)
        _write(sources, path, language)
        click.echo(f"muster: page {path}", err=True)


def _only_bench(sources: Sequence[Source]) -> BenchDir:
    """The one measurement that a bundle is of."""
    if len(sources) == 1 and sources[0].folder is not None and (sources[0].folder / "bench.json").exists():
        return BenchDir(str(sources[0].folder))
    raise click.UsageError("--export makes a bundle of one measurement of `muster bench`; name one")


def write_page(bench: BenchDir, path: Path) -> None:
    """Writes the page of a measurement, in the language of the terminal."""
    _write(_sources([bench.id], RunStore(bench.home)), path, terminal_language())


def _fetched(names: Sequence[str], server: str) -> list[Source]:
    """The sources of names of a server: records are fetched, and files and measurements are here."""
    from muster.cli.remote_records import fetched

    with places.opened(server) as opened:
        return _sources(*fetched(opened, names))


def _sources(names: Sequence[str], store: RunStore) -> list[Source]:
    from muster.bench.report import sources

    found = [sources.find(name, store) for name in names]
    for doubt in (doubt for source in found for doubt in source.doubts):
        click.echo(f"muster: {output.plain(doubt)}", err=True)
    return found


def _data(form: str, sources: Sequence[Source], language: str) -> str:
    from muster.bench.report import compare
    from muster.bench.report.formats import as_csv, as_markdown

    results = [source.result for source in sources]
    if form == "csv":
        return as_csv.csv(results)
    return as_markdown.markdown(results, language) if form == "md" else compare.json(results)


def _print(text: str, target: Path | None) -> None:
    if target is None:
        click.echo(text.encode("utf-8", "backslashreplace"), nl=False)
    else:
        with _writing(target):
            target.write_bytes(text.encode("utf-8", "backslashreplace"))


def show(bench: BenchDir) -> None:
    """Prints the result of a measurement in short to stderr, in the language of the terminal."""
    _show(_sources([bench.id], RunStore(bench.home)), terminal_language(), err=True)


def _show(sources: Sequence[Source], language: str, err: bool = False) -> None:
    """The result in short: as wide as the terminal and with colours, or plain lines in a pipe."""
    from muster.bench.report.formats import as_text

    width = output.terminal_width() if (sys.stderr if err else sys.stdout).isatty() else sys.maxsize
    results = [source.result for source in sources]
    text = as_text.text(results, _samples(sources), language, width, lambda text, look: output.style(text, **COLOURS[look]))
    click.echo(text, nl=False, err=err)


def _write(sources: Sequence[Source], path: Path, language: str) -> None:
    from muster.bench.report.formats import as_html

    page = as_html.html([source.result for source in sources], _samples(sources), language)
    with _writing(path):
        write_text(str(path), page)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise click.UsageError(f"{path} cannot be written: {reason}; name another file with --html or -o") from None


def _default_path(sources: Sequence[Source]) -> Path:
    """The default path of the page."""
    first = sources[0]
    if len(sources) == 1 and first.folder is not None:
        return first.folder / "report.html"
    name = first.result.id.replace("/", "-")
    return Path(f"report-{name}.html" if len(sources) == 1 else f"report-{name}-and-{len(sources) - 1}-more.html")


def _samples(sources: Sequence[Source]) -> dict[str, Any]:
    return {run: nodes for source in sources for run, nodes in source.samples.items()}
