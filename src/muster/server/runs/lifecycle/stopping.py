"""Stopping all runs of a user at once, such as when the user is disabled."""

import time

from sqlalchemy import select

from muster.server.core.access import Caller
from muster.server.core.tables import runs
from muster.server.runs import rows
from muster.server.runs.platform import Platform


def stop_all(platform: Platform, caller: Caller, user_id: str, reason: str) -> None:
    """Asks all runs of a user that have not ended to stop, each with a change of its own, by which the loop hears of it."""
    with platform.database.read() as connection:
        found = list(connection.scalars(select(runs.c.id).where(runs.c.user == user_id, runs.c.stage != rows.ENDED)))
    asked = {"now": False, "reason": reason, "time": time.time()}
    for run_id in found:
        platform.changes.stop(caller, run_id, asked)
    platform.wake()
