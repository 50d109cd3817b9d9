"""Pages for people: the list of results, one result, a comparison, rankings, refused bundles, plans, login and logout."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from markupsafe import Markup

from muster.bench.errors import ResultError
from muster.bench.model.result import Result
from muster.bench.report.formats import as_html
from muster.bench.samples import ByNode, bundle_rows, from_rows
from muster.records.files import read_json, write_json
from muster.server.core.access import BAD_TOKEN, COOKIE, Context, Reader
from muster.server.core.context import AppContext
from muster.server.core.tokens import SESSION
from muster.server.pages import templating
from muster.server.results.results import PAGE, Details
from muster.tester.errors import Denied

router = APIRouter(include_in_schema=False)
MAX_COMPARED = 20
MAX_FIELDS = 10
MAX_VALUE = 500  # characters of a value in the description of a system


@router.get("/")
def results(
    request: Request,
    context: Context,
    reader: Reader,
    model: str = "",
    search: str = "",
    sort: str = "received",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> HTMLResponse:
    found = context.submissions.results.search(model, search, sort, page)
    values = {
        "entries": found[:PAGE],
        "models": context.submissions.results.models(),
        "model": model,
        "search": search,
        "sort": sort,
        "page": page,
        "more": len(found) > PAGE,
        "query": lambda **changes: "?" + request.url.include_query_params(**changes).query,
    }
    return templating.page(request, "results.html", ("Results", "测试结果"), reader, values)


@router.get("/results/{number}")
def result(request: Request, context: Context, reader: Reader, number: int) -> HTMLResponse:
    details = context.submissions.results.details(number)
    values = {
        "entry": details.entry,
        "system": list(_system_lines(details.system)),
        "report": _report(context, [details]),
    }
    return templating.page(request, "result.html", (details.entry.bench, details.entry.bench), reader, values)


@router.get("/compare")
def compare(request: Request, context: Context, reader: Reader, result: Annotated[list[int], Query()] = []) -> HTMLResponse:  # noqa: B006
    """Shows several results side by side; the others are compared with the first."""
    numbers = list(dict.fromkeys(result))
    if not 2 <= len(numbers) <= MAX_COMPARED:
        raise Denied(400, f"a comparison needs 2 to {MAX_COMPARED} results; choose them in the list")
    found = [context.submissions.results.details(number) for number in numbers]
    values = {"entries": [details.entry for details in found], "report": _report(context, found)}
    return templating.page(request, "compare.html", ("Comparison", "结果对比"), reader, values)


@router.get("/ranking")
def ranking(request: Request, context: Context, reader: Reader, model: str = "") -> HTMLResponse:
    found = context.submissions.results
    values = {"rankings": found.rankings(model), "models": found.models(), "model": model, "shown": PAGE}
    return templating.page(request, "ranking.html", ("Ranking", "排行榜"), reader, values)


@router.get("/refused")
def refused(request: Request, context: Context, reader: Reader) -> HTMLResponse:
    values = {"refusals": context.submissions.results.refusals()}
    return templating.page(request, "refused.html", ("Refused", "被拒绝的提交"), reader, values)


@router.get("/plans")
def plans(request: Request, context: Context, reader: Reader) -> HTMLResponse:
    return templating.page(request, "plans.html", ("Plans", "测试计划"), reader, {"plans": context.submissions.plans.all()})


@router.get("/login")
def login(request: Request, next: str = "/") -> HTMLResponse:
    return templating.page(request, "login.html", ("Log in", "登录"), None, {"next": local_path(next), "problem": ""})


def own_form(request: Request) -> None:
    """Raises Denied for a form on a page of another site, so that none can log a user in or out."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Denied(403, "this form stood on a page of others; open this tester's own page")


async def body(request: Request) -> bytes:
    return await request.body()


@router.post("/login", dependencies=[Depends(own_form)])
def begin_session(request: Request, context: Context, body: Annotated[bytes, Depends(body)]) -> Response:
    form = _form(body)
    session = context.tokens.begin_session(form.get("token", "").strip())
    target = local_path(form.get("next", "/"))
    if session is None:
        return templating.page(request, "login.html", ("Log in", "登录"), None, {"next": target, "problem": BAD_TOKEN}, 401)
    answer = RedirectResponse(target, 303)
    answer.set_cookie(COOKIE, session, max_age=int(SESSION), httponly=True, samesite="strict", secure=context.secure)
    return answer


@router.post("/logout", dependencies=[Depends(own_form)])
def end_session(request: Request, context: Context) -> Response:
    context.tokens.end_session(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=context.secure)
    return answer


@router.get("/style.css")
def style() -> Response:
    return PlainTextResponse(templating.style(), media_type="text/css")


@router.get("/script.js")
def script() -> Response:
    return PlainTextResponse(as_html.script(), media_type="text/javascript")


def local_path(target: str) -> str:
    """Returns a path of this server; the front page instead of an address elsewhere."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


def _form(body: bytes) -> dict[str, str]:
    """Parses the fields of a form, of which there are few."""
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Denied(400, "this is no form of this tester; open its own page") from None
    return {name: values[0] for name, values in fields.items()}


def _report(context: AppContext, found: Sequence[Details]) -> Markup:
    """Renders the report of results; a note instead where one is invalid."""
    try:
        results = [Result.from_json(details.result) for details in found]
        samples = [_samples(context.layout.bundle(details.entry.sha256)) for details in found]
        return as_html.fragment(results, {run: nodes for of_result in samples for run, nodes in of_result.items()})
    except ResultError:  # accepted by a version that validated less
        return Markup(templating.templates().get_template("undrawn.html").render())


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
