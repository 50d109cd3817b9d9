"""Starting a run that was committed to the database: again after a crash in the middle, but never twice."""

import os
from functools import partial

from muster.dataclass import replace
from muster.engines.base import Engine
from muster.job import Job
from muster.launch import preemption
from muster.launch.start import data, snapshot, submit
from muster.launch.start.environment import Context, environment
from muster.launch.start.prepare import Prepared
from muster.launch.start.submit import Given
from muster.records import submissions
from muster.records.files import delete_tree, temporary_name
from muster.records.layout import RunDir
from muster.records.state import recorded
from muster.server.runs.lifecycle import owners
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row
from muster.tester.errors import Denied


class CodeGone(Exception):
    """The code of a run was deleted before it started."""


class Busy(Exception):
    """Another process is just creating the run."""


def start(platform: Platform, row: Row) -> RunDir:
    """Starts a run, unless an earlier server did, or lets one go on that was preempted.

    Raises Busy, and what its engine or its code are refused with.
    """
    pool = platform.pools[row.pool]
    engine, run = platform.engine(pool, row.account), platform.run_dir(row)
    placement = row.placement or {}
    job, devices = pool.placed(Job.from_json(row.job), placement.get("nodes") or (), row.account), placement.get("ids") or ()
    if exists(run, engine):
        preemption.continue_run(run, partial(platform.environments.variables, row, pool), job.hosts, devices)
    else:
        context = platform.environments.of_row(row, pool)
        code = _code(platform, row, job, context)
        prepared = Prepared(job, engine, context, code, row.source, environment(job, context))
        submit.start(prepared, given=Given(row.id, owners.written(platform.vault, row), devices))
    return run


def exists(run: RunDir, engine: Engine) -> bool:
    """True if a run was started. What a crash left of one that was not is removed."""
    if not os.path.isdir(run.path):
        return False
    if recorded(run) or submissions.handle(run):
        return True
    if submit.under_way(run):
        raise Busy
    if engine.find(run.path):
        return True
    remove(run)
    return False


def remove(run: RunDir) -> None:
    """Deletes the directory of a run, if it has one. Renames it first, so that no reader sees half of it."""
    doomed = temporary_name(f"{os.path.dirname(run.path)}/.{run.id}")
    try:
        os.rename(run.path, doomed)
    except FileNotFoundError:
        return
    delete_tree(doomed)


def _code(platform: Platform, row: Row, job: Job, context: Context) -> snapshot.Snapshot:
    if row.code:
        try:
            platform.code.ensure(row.user, row.code, context.home)
        except Denied as error:
            raise CodeGone(str(error)) from None
        return snapshot.Snapshot(str(snapshot.folder(context.home, row.code)), [], row.code)
    folder = data.code(job, context.storage, lambda text: None)
    return replace(snapshot.take(folder, context.home), source=folder)
