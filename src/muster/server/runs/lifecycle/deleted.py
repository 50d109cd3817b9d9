"""Runs whose records were deleted, or that ended without one, noted beside the runs: a database that is restored later may
still have them waiting.

The notes lie above the homes of accounts, where no job can write, and hold ids and states alone.
"""

import logging

from muster.records.layout import RunDir
from muster.records.run_view import State
from muster.server.core.web.logs import log
from muster.server.runs.lifecycle import notes, starting
from muster.server.runs.platform import Platform

NAME = ".deleted"
ENDED = ".ended"  # runs that ended before they had a directory: stopped, or refused by the pool


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


def note_end(platform: Platform, run_id: str, state: State) -> None:
    """Notes that a run ends which has no directory."""
    try:
        notes.append(_path(platform, ENDED), f"{run_id} {state.value} .")
    except OSError as error:
        log("the end of a run could not be noted", logging.WARNING, run=run_id, reason=str(error))


def ended(platform: Platform) -> dict[str, State]:
    """Returns how runs ended that had no directory, by id."""
    words = [line.split(" ") for line in notes.lines(_path(platform, ENDED))]
    return {line[0]: State(line[1]) for line in words if len(line) == 3}  # what a crash cut has no end


def _path(platform: Platform, name: str) -> str:
    return str(platform.data / "homes" / name)
