"""The record of a run as one archive, of which clients compute results and reports."""

import os
import stat
import tarfile
from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from muster.records.files import files_below
from muster.records.layout import RunDir
from muster.records.untrusted import open_regular
from muster.server.core.api.models import PREFIX, errors
from muster.server.runs.api.models import Seen, Shared, need_ended

router = APIRouter(prefix=PREFIX + "/runs/{run}")
TAR = "application/x-tar"
PIECE = 1 << 18
LEFT_OUT = ("work", "inputs", "outputs", "root", "bin", "probe", "log")  # of a node: no part of its record


@router.get("/record", responses={**errors(401, 404, 409), 200: {"content": {TAR: {}}}}, response_class=StreamingResponse)
def get_record(platform: Shared, row: Seen) -> StreamingResponse:
    """The record of a run that has ended, as a tar archive."""
    need_ended(row)
    return StreamingResponse(_archive(platform.run_dir(row)), media_type=TAR)


def _archive(run: RunDir) -> Iterator[bytes]:
    """Yields an archive of the regular files of a run; each has the size that its header says, whatever happens meanwhile."""
    for path in _record_files(run):
        try:
            file = open_regular(path, run.path)
        except OSError:
            continue  # it is gone, or something else stands there
        with file:
            size = os.fstat(file.fileno()).st_size
            header = tarfile.TarInfo(os.path.relpath(path, run.path))
            header.size, header.mode = size, stat.S_IRUSR | stat.S_IWUSR
            yield header.tobuf(tarfile.PAX_FORMAT)
            left = size
            while left and (piece := file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece
            yield b"\0" * (left + -size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def _record_files(run: RunDir) -> Iterator[str]:
    for path in files_below(run.path):
        parts = os.path.relpath(path, run.path).split(os.sep)
        inner = parts[4:5] if parts[0] == "attempts" and parts[2:3] == ["nodes"] else []
        if parts[0] not in ("shared", "supervisor.log") and not (inner and inner[0] in LEFT_OUT):
            yield path
