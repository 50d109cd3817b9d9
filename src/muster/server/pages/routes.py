"""The pages that people look at: the list, one result, several side by side, the ranking, what was refused, and the way in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from markupsafe import Markup

from muster.bench import report
from muster.bench.errors import ResultError
from muster.bench.model import Result
from muster.server.core.access import BAD_TOKEN, COOKIE, AHouse, Reader
from muster.server.core.context import House
from muster.server.core.tokens import SESSION
from muster.server.pages import templating
from muster.server.results import samples
from muster.server.results.entry import Entry
from muster.server.results.results import PAGE, SORTS
from muster.tester.errors import Denied

router = APIRouter(include_in_schema=False)
MOST_COMPARED = 20
MOST_FIELDS = 10


@router.get("/")
def results(
    request: Request,
    house: AHouse,
    reader: Reader,
    model: str = "",
    search: str = "",
    sort: str = "received",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> HTMLResponse:
    found = house.intake.results.search(model, search, sort, page)
    values = {
        "entries": found[:PAGE],
        "models": house.intake.results.models(),
        "sorts": list(SORTS),
        "model": model,
        "search": search,
        "sort": sort,
        "page": page,
        "more": len(found) > PAGE,
        "query": lambda **changes: "?" + request.url.include_query_params(**changes).query,
    }
    return templating.shown(request, "results.html", ("Results", "测试结果"), reader, values)


@router.get("/results/{number}")
def result(request: Request, house: AHouse, reader: Reader, number: int) -> HTMLResponse:
    entry, content, system = _found(house, number)
    values = {
        "entry": entry,
        "system": samples.lines(system),
        "report": _drawn(house, [entry], [content]),
    }
    return templating.shown(request, "result.html", (entry.bench, entry.bench), reader, values)


@router.get("/compare")
def compare(request: Request, house: AHouse, reader: Reader, result: Annotated[list[int], Query()] = []) -> HTMLResponse:  # noqa: B006
    """Several results side by side; the first is what the others are compared with."""
    numbers = list(dict.fromkeys(result))
    if not 2 <= len(numbers) <= MOST_COMPARED:
        raise Denied(400, f"a comparison needs 2 to {MOST_COMPARED} results; choose them in the list")
    found = [_found(house, number) for number in numbers]
    entries = [entry for entry, _, _ in found]
    body = _drawn(house, entries, [content for _, content, _ in found])
    return templating.shown(request, "compare.html", ("Comparison", "结果对比"), reader, {"entries": entries, "report": body})


@router.get("/ranking")
def ranking(request: Request, house: AHouse, reader: Reader, model: str = "") -> HTMLResponse:
    found = house.intake.results
    values = {"rankings": found.rankings(model), "models": found.models(), "model": model, "shown": PAGE}
    return templating.shown(request, "ranking.html", ("Ranking", "排行榜"), reader, values)


@router.get("/refused")
def refused(request: Request, house: AHouse, reader: Reader) -> HTMLResponse:
    values = {"refusals": house.intake.results.refusals()}
    return templating.shown(request, "refused.html", ("Refused", "被拒绝的提交"), reader, values)


@router.get("/plans")
def plans(request: Request, house: AHouse, reader: Reader) -> HTMLResponse:
    return templating.shown(request, "plans.html", ("Plans", "测试计划"), reader, {"plans": house.intake.plans.all()})


@router.get("/login")
def login(request: Request, next: str = "/") -> HTMLResponse:
    return templating.shown(request, "login.html", ("Log in", "登录"), None, {"next": inside(next), "problem": ""})


def own_form(request: Request) -> None:
    """Nobody is logged in or out by a page of others; browsers say where a form stood."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Denied(403, "this form stood on a page of others; open this tester's own page")


async def body(request: Request) -> bytes:
    return await request.body()


@router.post("/login", dependencies=[Depends(own_form)])
def begin_session(request: Request, house: AHouse, body: Annotated[bytes, Depends(body)]) -> Response:
    form = _form(body)
    session = house.tokens.begin_session(form.get("token", "").strip())
    target = inside(form.get("next", "/"))
    if session is None:
        return templating.shown(request, "login.html", ("Log in", "登录"), None, {"next": target, "problem": BAD_TOKEN}, 401)
    answer = RedirectResponse(target, 303)
    answer.set_cookie(COOKIE, session, max_age=int(SESSION), httponly=True, samesite="strict", secure=house.secure)
    return answer


@router.post("/logout", dependencies=[Depends(own_form)])
def end_session(request: Request, house: AHouse) -> Response:
    house.tokens.end_session(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=house.secure)
    return answer


@router.get("/style.css")
def style() -> Response:
    return PlainTextResponse(templating.style(), media_type="text/css")


@router.get("/script.js")
def script() -> Response:
    return PlainTextResponse(report.script(), media_type="text/javascript")


def inside(target: str) -> str:
    """A page of this server, whatever somebody wrote into a link."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


def _form(body: bytes) -> dict[str, str]:
    """The fields of a form, of which no form here has many."""
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Denied(400, "this is no form of this tester; open its own page") from None
    return {name: values[0] for name, values in fields.items()}


def _drawn(house: House, entries: Sequence[Entry], contents: Sequence[dict[str, Any]]) -> Markup:
    """The report of results that others sent: numbers that nobody foresaw spoil the drawing, and not the page."""
    try:
        results = [Result.from_json(content) for content in contents]
        return report.fragment(results, samples.of(house.place, entries))
    except ResultError:  # taken in by a version that validated less
        return Markup(templating.templates().get_template("undrawn.html").render())


def _found(house: House, number: int) -> tuple[Entry, dict[str, Any], Any]:
    entry = house.intake.results.get(number) if 0 < number < 1 << 62 else None
    details = house.intake.results.details(number) if entry else None
    if entry is None or details is None:
        raise Denied(404, f"this tester has no result {number}; the list shows those that it has")
    return entry, *details
