"""The HTTP API: plans, resumable uploads, verdicts and results, as JSON."""

import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from muster.server.core.access import demand
from muster.server.core.api.models import Body, Problem, errors
from muster.server.results.context import VERIFY_WORKERS
from muster.server.results.result_row import ResultRow
from muster.server.results.results import Details
from muster.server.results.uploads import CHUNK
from muster.server.results.web.access import Reader, Section, Sender, Submitter
from muster.server.results.web.csv_files import LISTED, RANKED, CsvResponse, csv_response
from muster.tester.errors import Denied
from muster.tester.protocol import NAME, OpenedUpload, Plan, Verdict, new_test_id

router = APIRouter(prefix="/api")
verifying = CapacityLimiter(VERIFY_WORKERS)  # its threads wait for a worker, apart from the threads of other requests


class UploadProblem(Problem):
    """Why a piece was rejected; `offset` says where to continue an upload."""

    offset: int | None = None


Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]


class NewPlan(Body):
    """A test plan, in AISBench's terms."""

    test_id: Name | None = Field(None, description="Made up where there is none.")
    model: Name
    mode: Literal["training", "inference"] = "training"
    division: Name = "close"
    scenario: Name = "generic"
    object_type: Name = "single"


class Announcement(BaseModel):
    """A bundle that is to be sent."""

    model_config = ConfigDict(strict=True)
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="The sum of the whole file.")
    size: int = Field(gt=0, description="Its bytes.")
    test_id: str | None = Field(None, pattern=f"^{NAME.pattern}$", description="The plan that it answers [the one in it].")


@dataclass(frozen=True)
class Offset:
    """How many bytes of an upload have arrived."""

    offset: int


UploadId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Number = Annotated[int, Path(ge=1, lt=1 << 62)]
Responses = dict[int | str, dict[str, Any]]
ERRORS = errors(401)
NO_RESULT: Responses = {**ERRORS, 404: {"model": Problem, "description": "No such result."}}
NO_PLAN: Responses = {**ERRORS, 404: {"model": Problem, "description": "No such plan."}}
SENDING: Responses = {
    **errors(401, 403),
    404: {"model": Problem, "description": "No such upload: begin again."},
    409: {"model": UploadProblem, "description": "Another offset than the end of what is there, which is `offset`."},
    413: {"model": Problem, "description": "More than the tester takes, or than was announced."},
    423: {"model": Problem, "description": "Another request works on this upload: wait."},
    503: {"model": Problem, "description": "The tester was interrupted: try later."},
    507: {"model": Problem, "description": "No room: try later."},
}


def _sending(*statuses: int) -> Responses:
    return {key: value for key, value in SENDING.items() if key in (400, 401, 403, 413, 503, 507, *statuses)}


@router.get("/plans", responses=ERRORS)
def list_plans(section: Section, caller: Reader) -> list[Plan]:
    """All test plans, the newest first."""
    demand(caller.principal, "plans.read")
    return section.submissions.plans.all()


@router.post("/plans", responses=errors(401, 403, 409), status_code=201)
def create_plan(section: Section, caller: Sender, given: NewPlan) -> Plan:
    """Makes a test plan; for administrators."""
    demand(caller.principal, "plans.change")
    plan = Plan(**{**given.model_dump(), "test_id": given.test_id or new_test_id(time.time())})
    section.submissions.plans.add(plan, caller)
    return plan


@router.get("/plans/{test_id}", responses=NO_PLAN)
def get_plan(section: Section, caller: Reader, test_id: str) -> Plan:
    """The plan of a test id."""
    demand(caller.principal, "plans.read")
    plan = section.submissions.plans.find(test_id)
    if plan is None:
        raise Denied(404, f"this tester has no plan `{test_id[:64]}`; ask who runs it for the test id")
    return plan


@router.delete("/plans/{test_id}", responses={**NO_PLAN, **errors(403)}, status_code=204)
def remove_plan(section: Section, caller: Sender, test_id: str) -> None:
    """Forgets a plan, for administrators; results that answered it stay."""
    demand(caller.principal, "plans.change")
    section.submissions.plans.remove(test_id, caller)


@router.post("/uploads", responses=_sending())
def begin_upload(section: Section, caller: Submitter, announcement: Announcement) -> OpenedUpload:
    """Announces a bundle. Sent again, it returns the same upload, to continue after a lost connection or a restart."""
    if known := section.submissions.earlier_verdict(announcement.sha256, caller.name):
        return OpenedUpload(None, announcement.size, CHUNK, known)
    uploads = section.submissions.uploads
    upload = uploads.begin(caller.principal, announcement.sha256, announcement.size, announcement.test_id)
    return OpenedUpload(upload.id, uploads.offset(upload), CHUNK, None)


@router.get("/uploads/{upload_id}", responses=_sending(404))
def get_offset(section: Section, caller: Submitter, upload_id: UploadId) -> Offset:
    """How many bytes of an upload have arrived."""
    uploads = section.submissions.uploads
    return Offset(uploads.offset(uploads.find(upload_id, caller.principal)))


@router.patch(
    "/uploads/{upload_id}",
    responses=SENDING,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def append(
    request: Request, section: Section, caller: Submitter, upload_id: UploadId, upload_offset: Annotated[int, Header(ge=0)]
) -> Offset:
    """Appends bytes to an upload; `Upload-Offset` says where they begin, which must be where it ends."""
    uploads, sender, data = section.submissions.uploads, caller.principal, await request.body()
    length = await to_thread.run_sync(lambda: uploads.append(uploads.find(upload_id, sender), upload_offset, data))
    return Offset(length)


@router.post(
    "/uploads/{upload_id}/finish",
    response_model=Verdict,
    responses={
        **_sending(404, 423),
        409: {
            "model": Verdict | UploadProblem,
            "description": "Replayed: it or a run in it is another result's; or bytes are missing.",
        },
        422: {"model": Verdict, "description": "Refused: truncated, altered, forged, too large, unsigned, or of another plan."},
    },
)
async def finish(section: Section, caller: Submitter, upload_id: UploadId) -> Response:
    """Verifies the bundle, which may take minutes. The same bytes sent again get the same verdict."""
    upload = await to_thread.run_sync(section.submissions.uploads.find, upload_id, caller.principal)
    status, verdict = await to_thread.run_sync(section.submissions.finish, upload, caller, limiter=verifying)
    return JSONResponse(verdict.to_json(), status)


@router.get("/results", responses=ERRORS)
def list_results(
    section: Section,
    _: Reader,
    model: str = "",
    search: str = "",
    sort: str = "received",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> list[ResultRow]:
    """Accepted results, 100 to a page; one more says that there is a next page."""
    return section.submissions.results.search(model, search, sort, page)


@router.get("/results.csv", response_class=CsvResponse, responses=ERRORS)
def results_csv(section: Section, _: Reader, model: str = "", search: str = "", sort: str = "received") -> Response:
    """All of the list, as CSV."""
    found = section.submissions.results.search(model, search, sort, page=0)
    return csv_response(LISTED, map(vars, found), "results.csv")


@router.get("/ranking.csv", response_class=CsvResponse, responses=ERRORS)
def ranking_csv(section: Section, _: Reader, model: str = "") -> Response:
    """Those that passed, the best first, per model, division and scenario, as CSV."""
    found = section.submissions.results.rankings(model)
    rows = ({**vars(entry), "rank": rank} for ranking in found for rank, entry in enumerate(ranking.entries, 1))
    return csv_response(RANKED, rows, "ranking.csv")


@router.get("/results/{number}", responses=NO_RESULT)
def get_result(section: Section, _: Reader, number: Number) -> Details:
    """One result with everything in it."""
    return section.submissions.results.details(number)


@router.get("/results/{number}/bundle", response_class=FileResponse, responses=NO_RESULT)
def get_bundle(section: Section, _: Reader, number: Number) -> FileResponse:
    """The bundle as it was sent."""
    result = section.submissions.results.details(number).entry
    path = section.files.bundle(result.sha256)
    if not path.exists():  # a database was restored without its files
        raise Denied(404, f"the bundle of result {number} is not on this server any more; tell who runs it")
    return FileResponse(path, media_type="application/gzip", filename=f"{result.bench}.tar.gz")
