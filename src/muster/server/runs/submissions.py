"""Putting jobs into the queue, once each: new ones, and those of runs again."""

import hmac
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from muster.dataclass import replace
from muster.job import Job
from muster.job.load import load
from muster.job.queue import PRIORITY
from muster.job.source import JobError, Problem
from muster.launch.start import snapshot
from muster.launch.start.submit import new_id
from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.accounts import users
from muster.server.core.store_access import RUN_KEY
from muster.server.core.vault import Vault
from muster.server.runs import rows
from muster.server.runs.checking import Checked, Submission, check, pools_of, project_of, validated
from muster.server.runs.environment import sealed
from muster.server.runs.platform import Platform
from muster.server.runs.queue.needs import need_of
from muster.server.runs.rows import Row
from muster.tester.errors import Denied

Note = Callable[[Connection, str], object]  # writes down more about a new run, in the transaction that makes it
OTHER_KEY = "this Idempotency-Key was used for another submission; send a new one"


def submit(
    platform: Platform,
    caller: Caller,
    given: Submission,
    key: str | None,
    origin: str | None = None,
    note: Note | None = None,
) -> Row:
    """Puts a job into the queue, once for each key; its id is committed before anything starts. Raises Denied, JobError."""
    digest = _digest(platform.vault, vars(given))
    if (earlier := _before(platform, caller, digest, key)) is not None:
        return earlier
    checked = check(platform, caller, given)
    return _queued(platform, caller, checked, given.job, given.code or "", given.secrets, digest, key, origin, note)


def submit_again(
    platform: Platform, caller: Caller, row: Row, sets: tuple[str, ...], secrets: dict[str, str], key: str | None
) -> Row:
    """Puts the job of a run into the queue again, with its code and overrides, as one of the caller's."""
    digest = _digest(platform.vault, [row.id, sets, secrets])
    if (earlier := _before(platform, caller, digest, key)) is not None:
        return earlier
    with platform.database.read() as connection:
        project = project_of(connection, caller, row.project)
    pool, account = pools_of(platform, caller, project, row.pool)[0]
    tree = _same_code(platform, row, pool.home(account))
    if any(text.partition("=")[0].strip() == "code" for text in sets):
        raise JobError([Problem("--set code", None, "code", "cannot be changed", "submit the job anew with other code")])
    job = replace(Job.from_json(row.job), hosts=None)  # these were the pool's
    job = replace(job, code=str(tree)) if tree else job
    loaded = load(job, sets, pool.home(account), row.id)
    found = validated(platform, caller, project, pool, account, loaded, secrets, tree)
    return _queued(platform, caller, found, row.source, row.code, secrets, digest, key, row.id)


def _digest(vault: Vault, given: Any) -> str:
    """Tells submissions apart that have the same key. Whoever reads it in a backup cannot try out secrets with it."""
    key = bytes.fromhex(vault.derived("digests of submissions"))
    return hmac.digest(key, json.dumps(given, sort_keys=True).encode(), "sha256").hex()


def _same_code(platform: Platform, row: Row, home: str) -> Path | None:
    """The code of a run in the home of another one; None for code at a URL."""
    if not row.code:
        return None
    old = platform.pools[row.pool].home(row.account)
    if not snapshot.intact(old, row.code):
        raise Denied(409, f"the code of {row.id} is not here any more; submit the job anew")
    if old != home:
        snapshot.keep(snapshot.take(str(snapshot.folder(old, row.code)), old), home)
    return snapshot.folder(home, row.code)


def _before(platform: Platform, caller: Caller, digest: str, key: str | None) -> Row | None:
    """The run that was submitted with this key already. Raises Denied where nothing new can be taken."""
    if key is not None:
        with platform.database.read() as connection:
            if (earlier := _earlier(connection, caller, digest, key)) is not None:
                return earlier
    platform.need_disk()
    return None


def _queued(
    platform: Platform,
    caller: Caller,
    checked: Checked,
    source: str,
    code: str,
    secrets_given: dict[str, str],
    digest: str,
    key: str | None,
    origin: str | None = None,
    note: Note | None = None,
) -> Row:
    created = time.time()
    fields = {
        "id": new_id(checked.job.name),
        "user": caller.principal.user_id,
        "project": checked.project.id,
        "pool": checked.pool.name,
        "account": checked.account,
        "name": checked.job.name,
        "key": key,
        "key_digest": digest if key is not None else None,
        "job": checked.job.to_json(),
        "need": need_of(checked.job, checked.pool.has_own_queue),
        "priority": checked.job.priority or PRIORITY,
        "preemptible": checked.job.preemptible,
        "origin": origin,
        "source": source,
        "code": code,
        "secrets_encrypted": sealed(platform.vault, secrets_given),
        "access_key": RUN_KEY + secrets.token_hex(9).upper(),
        "stage": rows.WAITING,
        "state": "pending",
        "created": created,
        "waiting_since": created,
    }
    return _inserted(platform, caller, fields, digest, key, note)


def _inserted(
    platform: Platform, caller: Caller, fields: dict[str, Any], digest: str, key: str | None, note: Note | None
) -> Row:
    run_id = str(fields["id"])
    try:
        with platform.changes.begin(run_id) as (connection, number):
            users.need_enabled(connection, caller.principal.user_id)  # all runs of one who was disabled are known
            platform.changes.insert(connection, number, fields)
            audit.record(connection, caller, "run.submit", run_id, after={"pool": fields["pool"]})
            if note is not None:
                note(connection, run_id)
            row = rows.get(connection, run_id)
    except IntegrityError:
        with platform.database.read() as connection:  # the same key at the same time
            earlier = _earlier(connection, caller, digest, str(key))
        if earlier is None:
            raise
        return earlier
    platform.wake()
    return row


def is_known(connection: Connection, caller: Caller, key: str) -> bool:
    """True if the caller has submitted a run with a key."""
    return rows.by_key(connection, caller.principal.user_id, key) is not None


def _earlier(connection: Connection, caller: Caller, digest: str, key: str) -> Row | None:
    found = rows.by_key(connection, caller.principal.user_id, key)
    if found is None:
        return None
    if found[1] is not None and found[1] != digest:  # an earlier version's was deleted
        raise Denied(409, OTHER_KEY)
    return found[0]
