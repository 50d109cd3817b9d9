"""The page of a job: its head, and tabs that have addresses of their own."""

from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from muster.bench.report.phrase import Phrase, same
from muster.server.core.api.models import Filter
from muster.server.core.authentication import Asking, Context
from muster.server.pages import templating
from muster.server.pages.runs import advice, comparing, endpoints, report, shown, timeline
from muster.server.pages.runs import ranks as rank_grid
from muster.server.pages.texts import say
from muster.server.runs import rows
from muster.server.runs.api.endpoints import Reached
from muster.server.runs.api.logs import NO_LOG, Number
from muster.server.runs.api.models import Seen, Shared
from muster.server.runs.platform import Platform
from muster.server.runs.reading import history, listing, log_archive, logs
from muster.server.runs.reading.listing import Wanted
from muster.server.runs.rows import Row
from muster.tester.errors import Denied

router = APIRouter(include_in_schema=False)
TABS = ("overview", "console", "metrics", "files", "endpoints", "events", "file", "result", "compare")
MODULES = {
    "overview": ("job.js",),
    "console": ("job.js", "console/page.js"),
    "metrics": ("job.js", "metrics/page.js"),
    "files": ("job.js", "files.js"),
    "endpoints": ("job.js", "endpoints/page.js"),
    "events": ("job.js", "events.js"),
    "result": ("job.js", "result.js"),
    "compare": ("job.js", "metrics/compare.js"),
}
RECENT = 20  # runs that a comparison offers


@router.get("/jobs/{run}")
def overview(
    request: Request,
    context: Context,
    platform: Shared,
    reached: Reached,
    caller: Asking,
    row: Seen,
    attempt: Annotated[int | None, Query(ge=1)] = None,
    part: bool = False,
) -> HTMLResponse:
    """The overview; with `part`, without the frame, which its script puts in place of what is there."""
    values = _head(request, context, platform, caller, row)
    run = values["run"]
    fetching = partial(history.fetching, platform.run_dir(row))
    values |= {"bars": timeline.bars(run, fetching), "grid": rank_grid.grid(run, attempt), "worst": rank_grid.WORST}
    if endpoints.is_environment(row):  # which is there to be entered
        values["reach"] = endpoints.reaching(platform, reached, caller, row, run)
    if part:
        return HTMLResponse(templating.fragment(request, "runs/overview.html", {**values, "caller": caller}))
    return _page(request, caller, "overview", values)


@router.get("/jobs/{run}/console")
def console(request: Request, context: Context, platform: Shared, caller: Asking, row: Seen) -> HTMLResponse:
    return _page(request, caller, "console", _head(request, context, platform, caller, row))


@router.get("/jobs/{run}/metrics")
def metrics(request: Request, context: Context, platform: Shared, caller: Asking, row: Seen) -> HTMLResponse:
    return _page(request, caller, "metrics", _head(request, context, platform, caller, row))


@router.get("/jobs/{run}/files")
def files(request: Request, context: Context, platform: Shared, caller: Asking, row: Seen) -> HTMLResponse:
    return _page(request, caller, "files", _head(request, context, platform, caller, row))


@router.get("/jobs/{run}/endpoints")
def endpoints_tab(
    request: Request, context: Context, platform: Shared, reached: Reached, caller: Asking, row: Seen, part: bool = False
) -> Response:
    """What leads into the run; with `part`, without the frame, of which its script takes what has changed."""
    values = _head(request, context, platform, caller, row)
    values["reach"] = endpoints.reaching(platform, reached, caller, row, values["run"])
    if part:
        return templating.part(request, "runs/tabs/endpoints.html", {**values, "tab": "endpoints"})
    return _page(request, caller, "endpoints", values)


@router.get("/jobs/{run}/events")
def events(request: Request, context: Context, platform: Shared, caller: Asking, row: Seen, part: bool = False) -> Response:
    """What happened; with `part`, without the frame, which its script asks for while the run goes on."""
    found = history.events(platform.run_dir(row)) if row.stage in (rows.RUNNING, rows.ENDED) else []
    if part:
        return templating.part(request, "runs/tabs/events.html", {"events": found})
    return _page(request, caller, "events", {**_head(request, context, platform, caller, row), "events": found})


@router.get("/jobs/{run}/file")
def job_file(request: Request, context: Context, platform: Shared, caller: Asking, row: Seen) -> HTMLResponse:
    return _page(request, caller, "file", _head(request, context, platform, caller, row))


@router.get("/jobs/{run}/job.yaml")
def download_job_file(row: Seen) -> Response:
    """The job file as written."""
    headers = {"Content-Disposition": 'attachment; filename="job.yaml"'}
    return Response(row.source, media_type="application/yaml; charset=utf-8", headers=headers)


@router.get("/jobs/{run}/log")
def download_log(
    platform: Shared, row: Seen, process: Annotated[str, Query(max_length=200)], attempt: Number = 1, node: Number = 0
) -> Response:
    """A whole log, as it is there now."""
    found = dict(logs.found(platform.run_dir(row))) if row.stage in (rows.RUNNING, rows.ENDED) else {}
    path = found.get((attempt, node, process))
    if path is None:
        raise Denied(404, NO_LOG)
    name = quote(f"{row.id}-{attempt}-{node}-{process}.log")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(logs.pieces(platform.run_dir(row), path), media_type="application/octet-stream", headers=headers)


@router.get("/jobs/{run}/logs.zip")
def download_logs(platform: Shared, row: Seen) -> Response:
    """All logs, as they are there now."""
    if row.stage not in (rows.RUNNING, rows.ENDED):
        raise Denied(404, NO_LOG)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(row.id)}-logs.zip"}
    return StreamingResponse(log_archive.pieces(platform.run_dir(row)), media_type="application/zip", headers=headers)


@router.get("/jobs/{run}/result")
def result(request: Request, context: Context, platform: Shared, caller: Asking, row: Seen, part: bool = False) -> HTMLResponse:
    """The frame of the report; with `part`, the report itself, which is computed meanwhile."""
    if part:
        if row.stage != rows.ENDED:
            raise Denied(409, f"{row.id} has not ended")
        return HTMLResponse(
            templating.fragment(request, "runs/report.html", {"report": report.fragment(platform.run_dir(row))})
        )
    return _page(request, caller, "result", _head(request, context, platform, caller, row))


@router.get("/jobs/{run}/compare")
def compare(
    request: Request,
    context: Context,
    platform: Shared,
    caller: Asking,
    row: Seen,
    other: Annotated[Filter, Query(alias="with")] = None,
) -> HTMLResponse:
    values = _head(request, context, platform, caller, row)
    second, unfound = None, None
    with context.database.read() as connection:
        try:
            second = rows.find(connection, caller.principal, other) if other else None
        except Denied as error:  # the form stays, with what was typed
            unfound = error
        named, _ = listing.found(connection, caller.principal, Wanted(name=row.name), None, RECENT)
        own, _ = listing.found(connection, caller.principal, Wanted("mine"), None, RECENT)
    recent = {one.id: one for one in [*named, *own] if one.id != row.id}
    values |= {"recent": list(recent.values())[:RECENT], "second": second, "wanted": other or ""}
    if unfound is not None:
        values["unfound"] = say("compare.unfound" if unfound.status == 404 else "compare.several", name=other)
    if second is not None:
        values["compared"] = comparing.compared(platform, row, second)
        values["second_run"] = shown.shown(platform, caller.principal, second).run
    return _page(request, caller, "compare", values, unfound.status if unfound else 200)


def _head(request: Request, context: Context, platform: Platform, caller: Asking, row: Row) -> dict[str, Any]:
    """What the top of each tab shows."""
    seq = platform.changes.last
    one = shown.shown(platform, caller.principal, row, detailed=True)
    run = {**one.run, "reason": one.reason}
    return {
        "one": one,
        "run": run,
        "row": row,
        "advice": advice.advice(run),
        "seq": seq,
        "tabs": TABS,
        "clonable": "/submit" in request.app.state.paths and caller.principal.scope == "write",
    }


def _page(request: Request, caller: Asking, tab: str, values: dict[str, Any], status: int = 200) -> HTMLResponse:
    name = values["row"].name
    title: Phrase = same(name) if tab == "overview" else _joined(name, say(f"job.tab.{tab}"))
    modules = MODULES["endpoints" if tab == "overview" and "reach" in values else tab] if tab in MODULES else ("job.js",)
    return templating.page(request, "runs/job.html", title, caller, {**values, "tab": tab}, "jobs", modules, status)


def _joined(name: str, tab: Phrase) -> Phrase:
    return Phrase(f"{name} · {tab.en}", f"{name} · {tab.zh}")
