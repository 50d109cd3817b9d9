"""Making a run of a job that came over the API, and deleting it."""

from __future__ import annotations

from muster.job.source import parse
from muster.server.core import audit
from muster.server.core.access import Caller, demand
from muster.server.core.accounts.projects import NO_PROJECT, Project
from muster.server.core.context import ServerContext
from muster.server.modelarts import flavors, job_file, stored
from muster.server.modelarts.asking.callers import Sender
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.asking.problems import BOOT_FILE, CODE_DIR, DUPLICATE, UNAVAILABLE, Refused
from muster.server.modelarts.stored import Stored
from muster.server.modelarts.telling.shown import has_ended
from muster.server.runs import submissions
from muster.server.runs.api import runs as runs_api
from muster.server.runs.api.models import Stop
from muster.server.runs.checking import Submission, pools_of
from muster.server.runs.platform import Platform
from muster.storage import Storage
from muster.storage.errors import AccessDenied, InvalidName, InvalidRequest, NotFound, StorageError

KEY = "modelarts-"
DELETED = "{} was deleted by {}"


def create(platform: Platform, sent: Sender, project: Project, given: Fields) -> Stored:
    """Puts a job of version 2 into the queue. Raises Refused, Denied, JobError."""
    demand(sent.caller.principal, "runs.submit", project.id, NO_PROJECT)
    fields, pool = job_file.job_file(platform, flavors.offers(platform, sent.caller, project), given)
    name, description = str(fields["name"]), given.object("metadata").text("description")
    return queue(
        platform,
        sent,
        project,
        fields,
        pool,
        lambda connection, run: stored.create(connection, run, project.id, name, description, given.data),
    )


def queue(
    platform: Platform, sent: Sender, project: Project, fields: dict[str, object], pool: str, note: submissions.Note
) -> Stored:
    """Puts a job file into the queue; `note` writes down the job that its run is.

    A signed request that comes again, whoever sends it, is the same job: the signature tells it from all others.
    """
    text, name = job_file.text_of(fields), str(fields["name"])
    parse(text, "")  # mistakes that the text itself has
    key = KEY + sent.signature if sent.signature else None
    with platform.database.read() as connection:
        again = key is not None and submissions.is_known(connection, sent.caller, key)
    if not again:
        _need_code(platform, sent, project, fields, pool)
    code = None if "code" in fields else platform.code.announce(sent.caller.principal.user_id, [])[0]
    submission = Submission(text, file="job", code=code, project=project.id, pool=pool or None)
    row = submissions.submit(platform, sent.caller, submission, key, note=note)
    with platform.database.read() as connection:
        found = stored.of_run(connection, row.id)
    if found is None:
        raise Refused(DUPLICATE, stored.taken(name))
    return found


def delete(context: ServerContext, platform: Platform, asking: Caller, job: Stored) -> None:
    """Deletes the record of a job that has ended; one that has not is told to stop, and is only listed as a run then."""
    if has_ended(job):
        runs_api.delete_run(platform, asking, job.row)
        return
    runs_api.stop_run(context, platform, asking, job.row, Stop(now=False, reason=DELETED.format(job.name, asking.name)))
    with context.database.begin() as connection:
        stored.hide(connection, job)
        audit.record(connection, asking, "modelarts.delete", job.run)


def _need_code(platform: Platform, sent: Sender, project: Project, fields: dict[str, object], pool: str) -> None:
    """Raises Refused where the code is not in the store: the run would find out when its turn comes."""
    code, boot = str(fields.get("code") or ""), str(fields.get("boot") or "")
    if not code:
        return
    found, account = pools_of(platform, sent.caller, project, pool or None)[0]
    with platform.temporary_key(sent.caller.principal) as key:
        settings = platform.environments.storage(found, account, key)
        try:
            with Storage(settings) as storage:
                there = storage.stat(code)
                if there is None or not there.is_dir:
                    raise Refused(
                        CODE_DIR, f"`algorithm.code_dir` names {code}, which is no folder of the store; put the code there"
                    )
                if boot and storage.stat(f"{code.rstrip('/')}/{boot}") is None:
                    raise Refused(BOOT_FILE, f"`algorithm.boot_file` names {boot}, which is not in {code}")
        except (AccessDenied, InvalidName, InvalidRequest, NotFound) as error:
            raise Refused(CODE_DIR, f"`algorithm.code_dir`: {error}") from None
        except StorageError as error:
            raise Refused(UNAVAILABLE, str(error), 503) from None
