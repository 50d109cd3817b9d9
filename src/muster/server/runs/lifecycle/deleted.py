"""Runs whose records were deleted, or that were stopped before they had one, noted beside the runs: a database that is
restored later may still have them waiting.

The notes lie above the homes of accounts, where no job can write, and hold ids alone.
"""

import logging

from muster.records.layout import RunDir
from muster.server.core.web.logs import log
from muster.server.runs.lifecycle import notes, starting
from muster.server.runs.platform import Platform

NAME = ".deleted"
STOPPED = ".stopped"  # before they had a directory


def delete(platform: Platform, run: RunDir) -> None:
    """Deletes the directory of a run whose record is deleted, and notes that there was one."""
    try:
        notes.append(_path(platform, NAME), run.id)
    except OSError as error:  # such as on a full disk, which deleting makes room on
        log("a deleted run could not be noted", logging.WARNING, run=run.id, reason=str(error))
    starting.remove(run)


def noted(platform: Platform) -> frozenset[str]:
    """Returns the ids of deleted runs."""
    return frozenset(notes.lines(_path(platform, NAME)))


def note_stop(platform: Platform, run_id: str) -> None:
    """Notes that a run is stopped which has no directory."""
    try:
        notes.append(_path(platform, STOPPED), run_id)
    except OSError as error:
        log("a stopped run could not be noted", logging.WARNING, run=run_id, reason=str(error))


def stopped(platform: Platform) -> frozenset[str]:
    """Returns the ids of runs that were stopped before they had a directory."""
    return frozenset(notes.lines(_path(platform, STOPPED)))


def _path(platform: Platform, name: str) -> str:
    return str(platform.data / "homes" / name)
