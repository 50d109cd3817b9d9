"""Records of runs that were fetched from a server, to compute from them as from those of this machine.

They lie in a directory of their own for each login, which is laid out as a home: runs and benches.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import TYPE_CHECKING

from muster.records.files import temporary_name
from muster.records.layout import RunDir, run_dir, runs_dir
from muster.tester.errors import Unreachable

if TYPE_CHECKING:
    from muster.client.api import Server

PIECE = 1 << 20


def place(server: Server) -> str:
    """The directory of what was fetched for a login."""
    return f"{server.home}/remote/{server.profile.name}"


def fetch(server: Server, run: str) -> RunDir:
    """Returns the record of a run; one that has ended is fetched once."""
    kept = run_dir(place(server), run)
    if os.path.exists(kept.final):
        return kept
    os.makedirs(runs_dir(place(server)), 0o700, exist_ok=True)
    temporary = temporary_name(kept.path)
    os.mkdir(temporary, 0o700)
    try:
        with server.client.stream("GET", "runs", run, "record") as answer, open(f"{temporary}/record", "wb") as file:
            for data in answer.iter_bytes(PIECE):
                file.write(data)
        with tarfile.open(f"{temporary}/record") as archive:
            archive.extractall(f"{temporary}/unpacked", filter="data")
        for folder, _, files in os.walk(f"{temporary}/unpacked"):
            for name in files:
                os.utime(os.path.join(folder, name))  # an archive has no times, and a run is as old as its files
        shutil.rmtree(kept.path, ignore_errors=True)
        os.rename(f"{temporary}/unpacked", kept.path)
    except tarfile.TarError as error:
        raise Unreachable(f"the record of {run} did not arrive whole: {error}; try again") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return kept
