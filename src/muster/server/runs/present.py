"""Runs as the API shows them: as `muster ps --json` does, with the names of user, project and pool."""

import os
from typing import Any

from muster.launch.run import Run
from muster.records.damage import Damaged
from muster.records.run_view import State
from muster.server.core.access import Principal
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.queue import view as queue_view
from muster.server.runs.rows import Row
from muster.server.runs.scheduling.model import Wait

QUEUED = "it waits to be started"
LEFT = (
    "it continued without the files of its MUSTER_SHARED: they lie on {}, and the pool {} has not all of these nodes any more"
)
BEING_STARTED = "it is being started"


def run(platform: Platform, principal: Principal, row: Row) -> dict[str, Any]:
    """A run as a user may see it, with its place in the queue, and why and about how long it waits."""
    return waiting_for(row, queue_view.why(platform, principal, row.id) if row.stage == rows.WAITING else None, platform)


def waiting_for(row: Row, found: Wait | None, platform: Platform) -> dict[str, Any]:
    """The same for who knows why it waits, if it does."""
    view = row.view or rows.pending_view(row, BEING_STARTED)
    shown: dict[str, Any] = {"position": None, "expected": None}
    if row.stage == rows.WAITING:
        reason = found.words() if found else QUEUED
        view = {**view, "reason": f"{view['reason']}; {reason}" if row.view else reason}
        shown["position"] = found.position if found else None
        shown["expected"] = queue_view.rounded(found.estimate.seconds) if found and found.estimate else None
    elif row.stage == rows.STARTING:
        trouble = platform.troubles.get(row.id)
        starts = {"state": State.STARTING.value, "phase": "starting", "reason": BEING_STARTED}
        view = {**view, **({"reason": f"it is tried again to start it: {trouble}"} if trouble else starts)}
    return _warned(platform, row, {**view, **_of_server(platform, row), **shown})


def details(platform: Platform, row: Row, shown: dict[str, Any]) -> dict[str, Any]:
    """A run with its attempts, ranks and job, from its directory, if it has one."""
    extra: dict[str, Any] = {"failure": None, "handle": None, "attempts": [], "submissions": [], "job": row.job}
    if os.path.isdir(platform.run_dir(row).path):
        try:
            extra = Run(platform.run_dir(row)).details()
        except (Damaged, LookupError, OSError):
            pass  # the view says what is wrong
        except Exception as error:  # such as that an engine does not answer, or that the record was removed
            extra["reason"] = str(error)
    if row.stage == rows.WAITING:  # it was preempted: why it waits is what the queue says
        return {**extra, **shown}
    return _warned(platform, row, {**shown, **extra, **_of_server(platform, row)})


def _warned(platform: Platform, row: Row, shown: dict[str, Any]) -> dict[str, Any]:
    """A run with the warnings of the server: that its devices idle, that its files stayed on nodes which are gone."""
    own, others = [platform.idle.get(row.id), _left(row)], list(shown.get("warnings") or [])
    return {**shown, "warnings": [*others, *(warning for warning in own if warning and warning not in others)]}


def _left(row: Row) -> str:
    left = (row.placement or {}).get("left")
    return LEFT.format(", ".join(left), row.pool) if left else ""


def _of_server(platform: Platform, row: Row) -> dict[str, Any]:
    return {
        "dir": f"{platform.url}/jobs/{row.id}",  # its page: the directory is the server's alone
        "user": row.user_name,
        "project": row.project_name,
        "pool": row.pool,
        "engine": platform.pools[row.pool].settings.engine,
        "created": row.created,
        "priority": row.priority,
        "preemptible": row.preemptible,
        "paused": row.paused is not None,
        "preemptions": row.preemptions,
        "pinned": row.pinned,
    }
