"""Routes of the files that a run wrote: their list, and each of them, as the account that the run has."""

import os
from collections.abc import Iterator
from io import BufferedReader
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from muster.linux.accounts import Account
from muster.server.core.api.models import PREFIX, errors
from muster.server.runs import rows
from muster.server.runs.api.models import Seen, Shared
from muster.server.runs.platform import Platform
from muster.server.runs.reading import files
from muster.server.runs.reading.files import NO_FILE, Folder
from muster.server.runs.rows import Row
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/runs/{run}")
PIECE = 1 << 18
TEXT = 256 << 10  # bytes of a file that are shown as text
ANY = "application/octet-stream"
WEBP = "image/webp"
PICTURES = {  # by their first bytes: a browser shows nothing else of a run in place
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}
CONTENTS: dict[str, dict[str, str]] = {kind: {} for kind in (ANY, "text/plain", *PICTURES.values(), WEBP)}
FilePath = Annotated[str, Query(max_length=4000, description="Below the run's directory.")]


@router.get("/files", responses=errors(401, 404))
def list_files(platform: Shared, row: Seen, path: FilePath = "") -> Folder:
    """The files in a directory of a run; without a path, the directories that there are."""
    run = platform.run_dir(row)
    if not path:
        found = files.roots(run) if row.stage in (rows.RUNNING, rows.ENDED) else []
        return Folder("", [files.Entry(root, root, "folder", 0, 0.0) for root in found], 0)
    return files.listed(run, path, _account(platform, row))


@router.get("/file", responses={**errors(401, 404), 200: {"content": CONTENTS}}, response_class=Response)
def read_file(
    platform: Shared,
    row: Seen,
    path: FilePath,
    show: Annotated[bool, Query(description="To be shown: pictures as such, else the beginning as text.")] = False,
) -> Response:
    """One file: to be stored, or with `show` to be looked at."""
    file = files.opened(platform.run_dir(row), path, _account(platform, row))
    size = os.fstat(file.fileno()).st_size
    if show:
        return _shown(file, size)
    name = quote(path.rsplit("/", 1)[-1], safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "Content-Length": str(size)}
    return StreamingResponse(_pieces(file, size), media_type=ANY, headers=headers)


def _account(platform: Platform, row: Row) -> Account | None:
    """Whose rights count: those of the account that the run's processes have."""
    if row.stage not in (rows.RUNNING, rows.ENDED):
        raise Denied(404, NO_FILE)
    return platform.accounts.of(platform.pools[row.pool], row.account)


def _shown(file: BufferedReader, size: int) -> Response:
    start = file.peek(16)
    kind = next((kind for magic, kind in PICTURES.items() if start.startswith(magic)), None)
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        kind = WEBP
    headers = {"X-Muster-Size": str(size), "Content-Disposition": "inline"}
    if kind:
        return StreamingResponse(_pieces(file, size), media_type=kind, headers={**headers, "Content-Length": str(size)})
    with file:
        content = file.read(TEXT)
    binary = b"\0" in content
    text = "" if binary else content.decode("utf-8", "replace")
    headers["X-Muster-Binary"] = "1" if binary else "0"
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


def _pieces(file: BufferedReader, size: int) -> Iterator[bytes]:
    """The bytes of a file, as many as were announced, whatever happens to it meanwhile."""
    with file:
        left = size
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece
        while left:  # it was cut
            yield b"\0" * min(PIECE, left)
            left -= min(PIECE, left)
