"""The report as one self-contained page: no network, both languages inside, drawings that need no script."""

import base64
import hashlib
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from muster.bench.model.result import Result
from muster.bench.report import compare, figures, headline, machines
from muster.bench.report.drawings import overlay
from muster.bench.report.drawings.use import Samples
from muster.bench.report.phrase import named, say
from muster.bench.report.run_view import RunView, view

AllSamples = Mapping[str, Samples]  # by run

CHARTED = 12  # runs of a page whose drawings are shown
MACHINES = 64  # in the table


@dataclass(frozen=True)
class ResultView:
    """One result as the page shows it."""

    result: Result
    main: headline.Tile
    tiles: Sequence[headline.Tile]
    checks: Sequence[headline.Check]
    runs: Sequence[RunView]
    left_out: int

    @property
    def machines(self) -> list[machines.MachineRow]:
        return [machines.row(machine) for machine in self.result.provenance.nodes]

    @property
    def packages(self) -> Mapping[str, object]:
        """The packages of the first node."""
        return self.result.provenance.nodes[0].packages if self.result.provenance.nodes else {}

    @property
    def command(self) -> str:
        return shlex.join(self.result.provenance.command or ()) or figures.NONE


def html(results: Sequence[Result], samples: AllSamples, language: str = "en") -> str:
    """A whole page: the report of one result, or the comparison of several."""
    word = say("report" if len(results) == 1 else "comparison").within(language)
    names = ", ".join(dict.fromkeys(result.name for result in results))
    return page(fragment(results, samples), f"{names} · {word}", language)


def fragment(results: Sequence[Result], samples: AllSamples) -> Markup:
    """The same without the page around it."""
    most = CHARTED // len(results) or 1
    views = [result_view(f"r{index}", result, samples, most) for index, result in enumerate(results)]
    template = _templates().get_template("result.html" if len(results) == 1 else "comparison.html")
    if len(results) == 1:
        return Markup(template.render(view=views[0]))
    differences = compare.differences(results)
    text = template.render(
        views=views,
        rows=compare.rows(results),
        chart=overlay.values(results),
        over_time=overlay.over_time(results),
        differences=differences[: compare.SHOWN],
        more=max(0, len(differences) - compare.SHOWN),
    )
    return Markup(text)


def page(body: Markup, title: str, language: str = "en") -> str:
    """The page around a body: head, style and script inside, language switch."""
    template = _templates().get_template("page.html")
    return template.render(body=body, title=title, language=language, style=style(), script=script())


def style() -> str:
    """The style sheet of all pages."""
    return _file("style.css")


def script() -> str:
    """The script of all pages: language switch, tooltips, hiding lines. Pages are complete without it."""
    return _file("script.js")


def result_view(id: str, result: Result, samples: AllSamples, most: int) -> ResultView:
    """Everything about one result, with the drawings of its first runs."""
    shown = [
        view(f"{id}-{index}", index + 1, run, result.metric, result.scope, samples.get(run.run, {}))
        for index, run in enumerate(result.runs[:most])
    ]
    left_out = max(0, len(result.runs) - most)
    return ResultView(result, headline.main_tile(result), headline.tiles(result), headline.checks(result), shown, left_out)


def environment(package: str) -> Environment:
    """The templates of a package; all that they show is escaped, and a name that is not there is an error."""
    loader = PackageLoader(package)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _templates() -> Environment:
    found = environment("muster.bench.report")
    found.globals |= {"t": say, "named": named, "machines": MACHINES}
    for shown in (figures.figure, figures.percent, figures.duration, figures.size, figures.scaled):
        found.filters[shown.__name__] = shown
    found.filters |= {"moment": _moment, "sha256": _digest, "json": lambda data: json.dumps(data, ensure_ascii=False, indent=2)}
    return found


def _moment(seconds: float | None) -> str:
    """A point in time in UTC, which scripts of the portal show in the zone of the viewer."""
    shown = figures.moment(seconds)
    if seconds is None or shown == figures.NONE:
        return shown
    iso = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    return Markup('<time datetime="{}" data-seconds>{}</time>').format(iso, shown)


def _digest(text: str) -> str:
    """The hash by which a content security policy allows an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return resources.files("muster.bench.report").joinpath("templates", name).read_text("utf-8")
