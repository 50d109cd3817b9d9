"""Pages of results: the list of results, one result, a comparison, rankings, refused bundles, plans."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from muster.bench.errors import ResultError
from muster.bench.model.result import Result
from muster.bench.report.formats import as_html
from muster.bench.report.phrase import Phrase, same
from muster.bench.samples import ByNode, bundle_rows, from_rows
from muster.records.files import read_json, write_json
from muster.server.core.access import may
from muster.server.pages import templating
from muster.server.results.context import ResultsContext
from muster.server.results.results import PAGE, Details
from muster.server.results.web.access import Reader, Section
from muster.tester.errors import Denied

router = APIRouter(include_in_schema=False)
MAX_COMPARED = 20
MAX_VALUE = 500  # characters of a value in the description of a system


@router.get("/results")
def results(
    request: Request,
    section: Section,
    reader: Reader,
    model: str = "",
    search: str = "",
    sort: str = "received",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> HTMLResponse:
    found = section.submissions.results.search(model, search, sort, page)
    values = {
        "entries": found[:PAGE],
        "models": section.submissions.results.models(),
        "model": model,
        "search": search,
        "sort": sort,
        "page": page,
        "more": len(found) > PAGE,
        "query": lambda **changes: "?" + request.url.include_query_params(**changes).query,
    }
    return templating.page(request, "results/results.html", Phrase("Results", "测试结果"), reader, values, section="results")


@router.get("/results/{number}")
def result(request: Request, section: Section, reader: Reader, number: int) -> HTMLResponse:
    details = section.submissions.results.details(number)
    values = {
        "entry": details.entry,
        "system": list(_system_lines(details.system)),
        "report": _report(section, [details]),
    }
    return templating.page(
        request, "results/result.html", same(details.entry.bench), reader, values, section="results", modules=("report.js",)
    )


@router.get("/compare")
def compare(request: Request, section: Section, reader: Reader, result: Annotated[list[int], Query()] = []) -> HTMLResponse:  # noqa: B006
    """Shows several results side by side; the others are compared with the first."""
    numbers = list(dict.fromkeys(result))
    if not 2 <= len(numbers) <= MAX_COMPARED:
        raise Denied(400, f"a comparison needs 2 to {MAX_COMPARED} results; choose them in the list")
    found = [section.submissions.results.details(number) for number in numbers]
    values = {"entries": [details.entry for details in found], "report": _report(section, found)}
    return templating.page(
        request,
        "results/compare.html",
        Phrase("Comparison", "结果对比"),
        reader,
        values,
        section="results",
        modules=("report.js",),
    )


@router.get("/ranking")
def ranking(request: Request, section: Section, reader: Reader, model: str = "") -> HTMLResponse:
    found = section.submissions.results
    values = {"rankings": found.rankings(model), "models": found.models(), "model": model, "shown": PAGE}
    return templating.page(request, "results/ranking.html", Phrase("Ranking", "排行榜"), reader, values, section="results")


@router.get("/refused")
def refused(request: Request, section: Section, reader: Reader) -> HTMLResponse:
    everybody = section.tester or may(reader.principal, "refusals.read")
    values = {"refusals": section.submissions.results.refusals(None if everybody else reader.principal.user_id)}
    return templating.page(
        request, "results/refused.html", Phrase("Refused", "被拒绝的提交"), reader, values, section="results"
    )


@router.get("/plans")
def plans(request: Request, section: Section, reader: Reader) -> HTMLResponse:
    found = {"plans": section.submissions.plans.all()}
    return templating.page(request, "results/plans.html", Phrase("Plans", "测试计划"), reader, found, section="results")


def _report(section: ResultsContext, found: Sequence[Details]) -> Markup:
    """Renders the report of results; a note instead where one is invalid."""
    try:
        results = [Result.from_json(details.result) for details in found]
        samples = [_samples(section.files.bundle(details.entry.sha256)) for details in found]
        return as_html.fragment(results, {run: nodes for of_result in samples for run, nodes in of_result.items()})
    except ResultError:  # accepted by a version that validated less
        return Markup(templating.templates().get_template("results/undrawn.html").render())


def _samples(bundle: Path) -> dict[str, ByNode]:
    """Reads the thinned samples of a bundle, which may hold gigabytes of logs, once; later from a file beside it."""
    cache = str(bundle.with_name(bundle.name.replace(".tar.gz", ".samples.json")))
    samples = read_json(cache)
    if samples is None:
        samples = bundle_rows(bundle)
        with suppress(OSError):  # reading goes on with a full disk
            write_json(cache, samples)
    return {run: from_rows(nodes) for run, nodes in samples.items()}


def _system_lines(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Flattens the description of a system, whose structure AISBench leaves open, into names and values."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _system_lines(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _system_lines(inner, f"{path}[{index}]")
    elif path:
        yield path, (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:MAX_VALUE]
