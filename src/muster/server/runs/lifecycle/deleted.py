"""Runs whose records were deleted, noted beside the runs: a database that is restored later may still have them waiting.

The note lies above the homes of accounts, where no job can write, and holds ids alone.
"""

import logging
import os

from muster.records.layout import RunDir
from muster.server.core.web.logs import log
from muster.server.runs.lifecycle import starting
from muster.server.runs.platform import Platform

NAME = ".deleted"


def delete(platform: Platform, run: RunDir) -> None:
    """Deletes the directory of a run whose record is deleted, and notes that there was one."""
    try:
        _note(_path(platform), run.id)
    except OSError as error:  # such as on a full disk, which deleting makes room on
        log("a deleted run could not be noted", logging.WARNING, run=run.id, reason=str(error))
    starting.remove(run)


def noted(platform: Platform) -> frozenset[str]:
    """Returns the ids of deleted runs."""
    try:
        with open(_path(platform), encoding="ascii", errors="replace") as file:
            return frozenset(file.read().split())
    except FileNotFoundError:
        return frozenset()


def _note(path: str, run_id: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, f"\n{run_id}\n".encode())  # a line that a crash cut before does not touch it
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _path(platform: Platform) -> str:
    return str(platform.data / "homes" / NAME)
