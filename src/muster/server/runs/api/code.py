"""Routes with which clients send the code of jobs: what it consists of, and the files of it that are not here."""

import os
import tempfile
from dataclasses import dataclass
from typing import IO, Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from muster.launch.start.snapshot import MOST_FILES
from muster.server.core.access import demand
from muster.server.core.api.models import PREFIX, Body, errors
from muster.server.core.authentication import Asking, Context
from muster.server.runs.api.models import Digest, Seen, Shared, Text
from muster.server.runs.platform import Platform
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX)
NO_CODE = "the run has no code of its own: its job names a URL"
Entry = Annotated[list[Text], Field(min_length=2, max_length=3)]


class Listing(Body):
    entries: Annotated[list[Entry], Field(max_length=MOST_FILES)]


@dataclass(frozen=True)
class Code:
    """Code by its digest, and the files of it that are not here."""

    code: str
    missing: list[str]


@router.post("/code", responses=errors(401, 403))
def announce_code(platform: Shared, caller: Asking, given: Listing) -> Code:
    """Says what some code consists of; the answer has the SHA-256 of files that are to be sent."""
    demand(caller.principal, "code.send")
    platform.need_disk()
    return Code(*platform.code.announce(caller.principal.user_id, given.entries))


@router.put("/code/{code}", responses=errors(401, 403, 404))
async def send_code(request: Request, context: Context, platform: Shared, caller: Asking, code: Digest) -> Code:
    """Takes a tar archive of missing files, each named by its SHA-256."""
    demand(caller.principal, "code.send")
    platform.need_disk()
    user = caller.principal.user_id
    if await run_in_threadpool(platform.code.missing, user, code):
        await run_in_threadpool(platform.code.check_room, user)
    with tempfile.TemporaryFile(dir=context.layout.scratch) as archive:
        async for piece in request.stream():
            await run_in_threadpool(_write, platform, archive, piece)
        archive.seek(0, os.SEEK_SET)
        return Code(code, await run_in_threadpool(platform.code.receive, user, code, archive))


@router.post("/runs/{run}/code", responses=errors(401, 403, 404, 409))
def take_code(platform: Shared, caller: Asking, row: Seen) -> Code:
    """Takes the code of a run that the caller may see, for a job of the caller's; where it has none, its job names a URL."""
    demand(caller.principal, "code.send")
    if not row.code:
        raise Denied(409, NO_CODE)
    platform.code.share(row.user, caller.principal.user_id, row.code)
    return Code(row.code, platform.code.missing(caller.principal.user_id, row.code))


def _write(platform: Platform, archive: IO[bytes], piece: bytes) -> None:
    platform.need_disk()  # others write, too
    archive.write(piece)
