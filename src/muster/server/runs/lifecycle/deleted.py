"""Runs whose records were deleted, noted beside the runs: a database that is restored later may still have them waiting.

The note lies above the homes of accounts, where no job can write, and holds ids alone.
"""

import logging

from muster.records.layout import RunDir
from muster.server.core.web.logs import log
from muster.server.runs.lifecycle import notes, starting
from muster.server.runs.platform import Platform

NAME = ".deleted"


def delete(platform: Platform, run: RunDir) -> None:
    """Deletes the directory of a run whose record is deleted, and notes that there was one."""
    try:
        notes.append(_path(platform), run.id)
    except OSError as error:  # such as on a full disk, which deleting makes room on
        log("a deleted run could not be noted", logging.WARNING, run=run.id, reason=str(error))
    starting.remove(run)


def noted(platform: Platform) -> frozenset[str]:
    """Returns the ids of deleted runs."""
    return frozenset(notes.lines(_path(platform)))


def _path(platform: Platform) -> str:
    return str(platform.data / "homes" / NAME)
