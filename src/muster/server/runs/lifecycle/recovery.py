"""What a server does about runs when it starts: the directories of runs win over the database, such as after a restore."""

import os
import time
from collections.abc import Iterator

from sqlalchemy import select

from muster.job import Job
from muster.job.queue import PRIORITY
from muster.launch.run_store import RunStore
from muster.records import derive, state
from muster.records.damage import Damaged
from muster.records.files import read_object
from muster.records.layout import RunDir, run_dir
from muster.records.run_view import State
from muster.records.untrusted import number as plain_number
from muster.server.core.accounts import projects, users
from muster.server.core.tables import runs
from muster.server.core.web.logs import log
from muster.server.runs import rows
from muster.server.runs.lifecycle import deleted, owners
from muster.server.runs.platform import Platform
from muster.server.runs.pools.pool import Pool
from muster.server.runs.queue import allocations
from muster.server.runs.queue.needs import need_of

BEFORE = "it had been stopped before an older database was put back"


def recover(platform: Platform) -> None:
    """Makes the index agree with the directories of runs: unknown runs are added, those that were deleted are removed."""
    platform.accounts.note()
    with platform.database.read() as connection:
        known = {row.id: row for row in connection.execute(select(runs.c.id, runs.c.removed, runs.c.stage))}
    directories: dict[str, RunDir] = {}
    for pool, account, run in _directories(platform):
        found = known.get(run.id)
        if found is None:
            _add(platform, pool, account, run)
        elif found.removed is not None:
            deleted.delete(platform, run)
        elif found.stage == rows.WAITING and not _has_left(platform, run):
            platform.changes.change(run.id, stage=rows.STARTING)  # it was started before the backup was made anew
        directories[run.id] = run
    for run_id in deleted.noted(platform) - directories.keys():
        if run_id in known and known[run_id].stage != rows.ENDED:
            platform.changes.forget(run_id)  # it ended after the backup was made, and was deleted: it must not start again
    for run_id in deleted.stopped(platform) - directories.keys():
        if run_id in known and known[run_id].stage == rows.WAITING:
            with platform.database.read() as connection:
                row = rows.get(connection, run_id)
            platform.changes.end(run_id, rows.ended_view(row, State.STOPPED, BEFORE))
    now = time.time()
    with platform.database.begin() as connection:
        given_out = [name for name, pool in platform.pools.all.items() if not pool.has_own_queue]
        for run_id in allocations.missing(connection, given_out):
            begun = _created(directories[run_id]) if run_id in directories else None
            allocations.begin(connection, run_id, min(begun or now, now))


def _has_left(platform: Platform, run: RunDir) -> bool:
    """True if a run that waits has left its devices and was not continued since: the queue says when it goes on."""
    try:
        left = state.recorded(run) is None and derive.left_for(state.read(run))
    except Damaged:
        return False
    if left:
        return True
    now = derive.view(run)  # of one whose supervisor was killed while it left nobody wrote that down but the queue
    with platform.database.read() as connection:
        before = rows.get(connection, run.id).view or {}
    same = before.get("phase") == derive.PREEMPTED and before.get("attempt") == now.attempt
    return same and now.phase != derive.QUEUED and not now.state.ended


def _directories(platform: Platform) -> Iterator[tuple[Pool, str, RunDir]]:
    for pool in platform.pools.all.values():
        for account in sorted(os.listdir(pool.folder)) if pool.folder.is_dir() else ():
            home = str(pool.folder / account)
            for run_id in RunStore(home).run_ids():
                yield pool, account, run_dir(home, run_id)


def _created(run: RunDir) -> float | None:
    """When the directory of a run was made: it had its devices from then on."""
    return plain_number(read_object(run.run).get("created"))


def _add(platform: Platform, pool: Pool, account: str, run: RunDir) -> None:
    """Adds a run that the database does not know, with the owner that the server wrote into its record."""
    record = read_object(run.run)
    owner = owners.read(platform.vault, pool, account, run.id, record.get("owner"))
    if owner is None:
        log("a run has no owner whom this server wrote into its record", run=run.id)
        return
    with platform.changes.begin(run.id) as (connection, number):
        user = users.find(connection, owner["user"])
        project = projects.find(connection, pool.settings.project or owner["project"])
        if user is None or project is None:
            log("a run has no owner in the database", run=run.id)
            return
        job = Job.from_json(read_object(run.job))
        fields = {
            "id": run.id,
            "user": user.id,
            "project": project.id,
            "pool": pool.name,
            "account": account,
            "name": job.name,
            "job": job.to_json(),
            "need": need_of(job, pool.has_own_queue),
            "priority": job.priority or PRIORITY,
            "preemptible": job.preemptible,
            "source": "",
            "code": str(record.get("code") or ""),
            "stage": rows.STARTING,  # whether it runs or has ended is found out by the loop
            "state": "pending",
            "created": min(_created(run) or time.time(), time.time()),
        }
        platform.changes.insert(connection, number, fields)
