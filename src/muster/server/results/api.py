"""The HTTP API: plans, resumable uploads, verdicts and results, as JSON."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from muster.bench.report.formats.as_csv import cell
from muster.server.core.access import Context, Reader, Submitter
from muster.server.core.context import VERIFY_WORKERS
from muster.server.results.result_row import ResultRow
from muster.server.results.results import Details
from muster.server.results.uploads import CHUNK
from muster.tester.errors import Denied
from muster.tester.protocol import NAME, OpenedUpload, Plan, Verdict

router = APIRouter(prefix="/api")
verifying = CapacityLimiter(VERIFY_WORKERS)  # its threads wait for a worker, apart from the threads of other requests


class Problem(BaseModel):
    """Why a request was rejected; `offset` says where to continue an upload."""

    reason: str
    offset: int | None = None


class Announcement(BaseModel):
    """A bundle that is to be sent."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="The sum of the whole file.")
    size: int = Field(gt=0, description="Its bytes.")
    test_id: str | None = Field(None, pattern=f"^{NAME.pattern}$", description="The plan that it answers [the one in it].")


@dataclass(frozen=True)
class Offset:
    """How many bytes of an upload have arrived."""

    offset: int


UploadId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Number = Annotated[int, Path(ge=1, lt=1 << 62)]
# The columns of CSV files.
PLANNED = ("model", "division", "scenario", "mode", "object_type", "test_id")
MEASURED = ("value", "unit", "accuracy", "samples_per_joule", "nodes", "devices", "hardware", "signature", "signed_by")
LISTED = ("number", "bench", *PLANNED, "name", "submitter", "received", "passed", "metric", *MEASURED, "sha256")
YES_NO = {True: "yes", False: "no"}
RANKED = ("model", "division", "scenario", "metric", "rank", "number", "bench", "submitter", "received", *MEASURED)
ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "No token, or one that is not known or was revoked."},
}
NO_RESULT: dict[int | str, dict[str, Any]] = {**ERRORS, 404: {"model": Problem, "description": "No such result."}}
SENDING: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    403: {"model": Problem, "description": "The token may read and not submit."},
    404: {"model": Problem, "description": "No such upload: begin again."},
    409: {"model": Problem, "description": "Another offset than the end of what is there, which is `offset`."},
    413: {"model": Problem, "description": "More than the tester takes, or than was announced."},
    423: {"model": Problem, "description": "Another request works on this upload: wait."},
    503: {"model": Problem, "description": "The tester was interrupted: try later."},
    507: {"model": Problem, "description": "No room: try later."},
}


@router.get("/plans", responses=ERRORS)
def list_plans(context: Context, _: Reader) -> list[Plan]:
    """All test plans, the newest first."""
    return context.submissions.plans.all()


@router.get("/plans/{test_id}", responses={**ERRORS, 404: {"model": Problem, "description": "No such plan."}})
def get_plan(context: Context, _: Reader, test_id: str) -> Plan:
    """The plan of a test id."""
    plan = context.submissions.plans.find(test_id)
    if plan is None:
        raise Denied(404, f"this tester has no plan `{test_id[:64]}`; ask who runs it for the test id")
    return plan


@router.post("/uploads", responses={key: SENDING[key] for key in (401, 403, 413, 507)})
def begin_upload(context: Context, name: Submitter, announcement: Announcement) -> OpenedUpload:
    """Announces a bundle. Sent again, it returns the same upload, to continue after a lost connection or a restart."""
    if known := context.submissions.earlier_verdict(announcement.sha256, name):
        return OpenedUpload(None, announcement.size, CHUNK, known)
    uploads = context.submissions.uploads
    upload = uploads.begin(name, announcement.sha256, announcement.size, announcement.test_id)
    return OpenedUpload(upload.id, uploads.offset(upload), CHUNK, None)


@router.get("/uploads/{upload_id}", responses={key: SENDING[key] for key in (401, 403, 404)})
def get_offset(context: Context, name: Submitter, upload_id: UploadId) -> Offset:
    """How many bytes of an upload have arrived."""
    uploads = context.submissions.uploads
    return Offset(uploads.offset(uploads.find(upload_id, name)))


@router.patch(
    "/uploads/{upload_id}",
    responses=SENDING,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def append(
    request: Request, context: Context, name: Submitter, upload_id: UploadId, upload_offset: Annotated[int, Header(ge=0)]
) -> Offset:
    """Appends bytes to an upload; `Upload-Offset` says where they begin, which must be where it ends."""
    uploads, data = context.submissions.uploads, await request.body()
    length = await to_thread.run_sync(lambda: uploads.append(uploads.find(upload_id, name), upload_offset, data))
    return Offset(length)


@router.post(
    "/uploads/{upload_id}/finish",
    response_model=Verdict,
    responses={
        **{key: SENDING[key] for key in (401, 403, 404, 423, 503, 507)},
        409: {"model": Verdict, "description": "Replayed: it or a run in it is another result's; or bytes are missing."},
        422: {"model": Verdict, "description": "Refused: truncated, altered, forged, too large, unsigned, or of another plan."},
    },
)
async def finish(context: Context, name: Submitter, upload_id: UploadId) -> Response:
    """Verifies the bundle, which may take minutes. The same bytes sent again get the same verdict."""
    upload = await to_thread.run_sync(context.submissions.uploads.find, upload_id, name)
    status, verdict = await to_thread.run_sync(context.submissions.finish, upload, limiter=verifying)
    return JSONResponse(verdict.to_json(), status)


@router.get("/results", responses=ERRORS)
def list_results(
    context: Context,
    _: Reader,
    model: str = "",
    search: str = "",
    sort: str = "received",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> list[ResultRow]:
    """Accepted results, 100 to a page; one more says that there is a next page."""
    return context.submissions.results.search(model, search, sort, page)


@router.get("/results.csv", response_class=PlainTextResponse, responses=ERRORS)
def results_csv(context: Context, _: Reader, model: str = "", search: str = "", sort: str = "received") -> Response:
    """All of the list, as CSV."""
    found = context.submissions.results.search(model, search, sort, page=0)
    return _csv_response(csv_table(LISTED, map(vars, found)), "results.csv")


@router.get("/ranking.csv", response_class=PlainTextResponse, responses=ERRORS)
def ranking_csv(context: Context, _: Reader, model: str = "") -> Response:
    """Those that passed, the best first, per model, division and scenario, as CSV."""
    found = context.submissions.results.rankings(model)
    rows = ({**vars(entry), "rank": rank} for ranking in found for rank, entry in enumerate(ranking.entries, 1))
    return _csv_response(csv_table(RANKED, rows), "ranking.csv")


@router.get("/results/{number}", responses=NO_RESULT)
def get_result(context: Context, _: Reader, number: Number) -> Details:
    """One result with everything in it."""
    return context.submissions.results.details(number)


@router.get("/results/{number}/bundle", response_class=FileResponse, responses=NO_RESULT)
def get_bundle(context: Context, _: Reader, number: Number) -> FileResponse:
    """The bundle as it was sent."""
    result = context.submissions.results.details(number).entry
    return FileResponse(context.layout.bundle(result.sha256), media_type="application/gzip", filename=f"{result.bench}.tar.gz")


def csv_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV, in which no cell is a formula for a spreadsheet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    for row in rows:
        received = datetime.fromtimestamp(row["received"], UTC).isoformat(timespec="seconds")
        shown = {name: received if name == "received" else row[name] for name in columns}
        writer.writerow({name: YES_NO[value] if isinstance(value, bool) else cell(value) for name, value in shown.items()})
    return text.getvalue()


def _csv_response(text: str, name: str) -> PlainTextResponse:
    return PlainTextResponse(text, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})
