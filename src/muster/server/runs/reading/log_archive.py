"""All logs of a run in one ZIP archive, which is made while it is sent: it takes no place, and memory for a piece of a log."""

import io
import zipfile
from collections.abc import Iterator

from muster.records.layout import RunDir
from muster.server.runs.reading import logs

LEVEL = 1  # of the compression: logs shrink well, and the server has other things to do


class _Sent(io.RawIOBase):
    """What was written and not yet sent; an archive that cannot go back in it describes each file behind its content."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def pieces(run: RunDir) -> Iterator[bytes]:
    """The bytes of the archive, with each log as it is when its turn comes."""
    sent = _Sent()
    with zipfile.ZipFile(sent, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for (attempt, node, process), path in sorted(logs.found(run)):
            name = f"{run.id}/attempt-{attempt}/node-{node}/{process}.log"
            with archive.open(name, "w", force_zip64=True) as entry:
                for piece in logs.pieces(run, path):
                    entry.write(piece)
                    if data := sent.take():
                        yield data
    yield sent.take()
