"""The protocol: plans, uploads that can be resumed, verdicts and results, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from muster.server.core.access import AHouse, Reader, Sender
from muster.server.core.context import JUDGES
from muster.server.results import csv_tables
from muster.server.results.entry import Entry
from muster.server.results.uploads import CHUNK
from muster.tester.errors import Denied
from muster.tester.plan import NAME, Plan
from muster.tester.verdict import Verdict

router = APIRouter(prefix="/api")
judging = CapacityLimiter(JUDGES)  # threads that wait for a judge leave those of other requests alone


class Problem(BaseModel):
    """Why a request was not granted; `offset` says where to go on with an upload."""

    reason: str
    offset: int | None = None


class Announcement(BaseModel):
    """A bundle that is to be sent."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="The sum of the whole file.")
    size: int = Field(gt=0, description="Its bytes.")
    test_id: str | None = Field(None, pattern=f"^{NAME.pattern}$", description="The plan that it answers [the one in it].")


@dataclass(frozen=True)
class Opened:
    """An upload to go on with at `offset`, in requests of at most `chunk` bytes; or the verdict, where the bundle is known."""

    id: str | None
    offset: int
    chunk: int
    verdict: Verdict | None


@dataclass(frozen=True)
class Offset:
    """How many bytes of an upload are there."""

    offset: int


@dataclass(frozen=True)
class Details:
    """One result: its line in the list, the whole `result.json`, and the system as its owner describes it."""

    entry: Entry
    result: dict[str, Any]
    system: Any


UploadId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Number = Annotated[int, Path(ge=1, lt=1 << 62)]
ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "No token, or one that is not known or was revoked."},
}
SENDING: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    403: {"model": Problem, "description": "The token may read and not submit."},
    404: {"model": Problem, "description": "No such upload: begin again."},
    409: {"model": Problem, "description": "Another offset than the end of what is there, which `offset` tells."},
    413: {"model": Problem, "description": "More than the tester takes, or than was announced."},
    423: {"model": Problem, "description": "Another request works on this upload: wait."},
    503: {"model": Problem, "description": "The tester was interrupted: try later."},
    507: {"model": Problem, "description": "No room: try later."},
}


@router.get("/plans", responses=ERRORS)
def list_plans(house: AHouse, _: Reader) -> list[Plan]:
    """All test plans, the newest first."""
    return house.intake.plans.all()


@router.get("/plans/{test_id}", responses={**ERRORS, 404: {"model": Problem, "description": "No such plan."}})
def get_plan(house: AHouse, _: Reader, test_id: str) -> Plan:
    """The plan of a test id."""
    plan = house.intake.plans.find(test_id)
    if plan is None:
        raise Denied(404, f"this tester has no plan `{test_id[:64]}`; ask who runs it for the test id")
    return plan


@router.post("/uploads", responses={key: SENDING[key] for key in (401, 403, 413, 507)})
def begin_upload(house: AHouse, name: Sender, announcement: Announcement) -> Opened:
    """Announces a bundle. Sent again, it gives the same upload, so that one can go on after a lost connection or a restart."""
    if known := house.intake.earlier(announcement.sha256, name):
        return Opened(None, announcement.size, CHUNK, known)
    upload, offset = house.intake.uploads.begin(name, announcement.sha256, announcement.size, announcement.test_id)
    return Opened(upload.id, offset, CHUNK, None)


@router.get("/uploads/{upload_id}", responses={key: SENDING[key] for key in (401, 403, 404)})
def get_offset(house: AHouse, name: Sender, upload_id: UploadId) -> Offset:
    """How many bytes of an upload are there."""
    return Offset(house.intake.uploads.find(upload_id, name)[1])


@router.patch(
    "/uploads/{upload_id}",
    responses=SENDING,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def append(
    request: Request, house: AHouse, name: Sender, upload_id: UploadId, upload_offset: Annotated[int, Header(ge=0)]
) -> Offset:
    """Adds bytes to the end of an upload; `Upload-Offset` says where they begin, which must be where it ends."""
    data = await request.body()
    return await to_thread.run_sync(_append, house, name, upload_id, upload_offset, data)


def _append(house: AHouse, name: str, upload_id: str, offset: int, data: bytes) -> Offset:
    upload, _ = house.intake.uploads.find(upload_id, name)
    return Offset(house.intake.uploads.append(upload, offset, data))


@router.post(
    "/uploads/{upload_id}/finish",
    response_model=Verdict,
    responses={
        **{key: SENDING[key] for key in (401, 403, 404, 423, 503, 507)},
        409: {"model": Verdict, "description": "Replayed: it or a run in it is another result's; or bytes are missing."},
        422: {"model": Verdict, "description": "Refused: truncated, altered, forged, too large, unsigned, or of another plan."},
    },
)
async def finish(house: AHouse, name: Sender, upload_id: UploadId) -> Response:
    """Has the bundle verified; this takes as long as it takes. The same bytes sent again get the same verdict."""
    upload, _ = await to_thread.run_sync(house.intake.uploads.find, upload_id, name)
    status, verdict = await to_thread.run_sync(house.intake.finish, upload, limiter=judging)
    return JSONResponse(vars(verdict), status)


@router.get("/results", responses=ERRORS)
def list_results(
    house: AHouse,
    _: Reader,
    model: str = "",
    search: str = "",
    sort: str = "received",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> list[Entry]:
    """Accepted results, 100 to a page; one more says that there is a next page."""
    return house.intake.results.search(model, search, sort, page)


@router.get("/results.csv", response_class=PlainTextResponse, responses=ERRORS)
def results_csv(house: AHouse, _: Reader, model: str = "", search: str = "", sort: str = "received") -> Response:
    """All of the list, as CSV."""
    return csv_tables.answer(csv_tables.listed(house.intake.results.search(model, search, sort, page=0)), "results.csv")


@router.get("/ranking.csv", response_class=PlainTextResponse, responses=ERRORS)
def ranking_csv(house: AHouse, _: Reader, model: str = "") -> Response:
    """Those that passed, the best first, per model, division and scenario, as CSV."""
    return csv_tables.answer(csv_tables.ranked(house.intake.results.rankings(model)), "ranking.csv")


@router.get("/results/{number}", responses={**ERRORS, 404: {"model": Problem, "description": "No such result."}})
def get_result(house: AHouse, _: Reader, number: Number) -> Details:
    """One result with everything in it."""
    entry, details = house.intake.results.get(number), house.intake.results.details(number)
    if entry is None or details is None:
        raise Denied(404, f"this tester has no result {number}")
    return Details(entry, *details)


@router.get(
    "/results/{number}/bundle",
    response_class=FileResponse,
    responses={**ERRORS, 404: {"model": Problem, "description": "No such result."}},
)
def get_bundle(house: AHouse, _: Reader, number: Number) -> FileResponse:
    """The bundle as it was sent."""
    entry = house.intake.results.get(number)
    if entry is None:
        raise Denied(404, f"this tester has no result {number}")
    return FileResponse(house.place.bundle(entry.sha256), media_type="application/gzip", filename=f"{entry.bench}.tar.gz")
