"""Runs as the API shows them: as `muster ps --json` does, with the names of user, project and pool."""

from typing import Any

from sqlalchemy import Connection

from muster.launch.run import Run
from muster.records.damage import Damaged
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row

QUEUED = "it waits to be started"
BEING_STARTED = "it is being started"


def run(platform: Platform, connection: Connection, row: Row) -> dict[str, Any]:
    """A run, with its place in the queue."""
    return {**without_position(platform, row), "position": rows.position(connection, row)}


def without_position(platform: Platform, row: Row) -> dict[str, Any]:
    view = row.view or rows.pending_view(row, _reason(platform, row))
    return {**view, **_of_server(platform, row)}


def details(platform: Platform, row: Row, shown: dict[str, Any]) -> dict[str, Any]:
    """A run with its attempts, ranks and job, from its directory, if it has one."""
    extra: dict[str, Any] = {"failure": None, "handle": None, "attempts": [], "submissions": [], "job": row.job}
    if row.stage in (rows.RUNNING, rows.ENDED):
        try:
            extra = Run(platform.run_dir(row)).details()
        except (Damaged, LookupError, OSError):
            pass  # the view says what is wrong
        except Exception as error:  # such as that an engine does not answer, or that the record was removed
            extra["reason"] = str(error)
    return {**shown, **extra, **_of_server(platform, row)}


def _of_server(platform: Platform, row: Row) -> dict[str, Any]:
    return {
        "dir": f"{platform.url}/runs/{row.id}",
        "user": row.user_name,
        "project": row.project_name,
        "pool": row.pool,
        "engine": platform.pools[row.pool].settings.engine,
        "created": row.created,
    }


def _reason(platform: Platform, row: Row) -> str:
    if row.stage == rows.WAITING:
        return platform.reasons.get(row.id, QUEUED)
    trouble = platform.troubles.get(row.id)
    return f"it is tried again to start it: {trouble}" if trouble else BEING_STARTED
