"""Checks a job that is submitted as the command line does: its text, against its project and its pool."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, select

from muster.config.pools import OF_USER
from muster.dataclass import replace
from muster.engines.base import Engine, EngineError
from muster.job import Job
from muster.job.kinds import Item
from muster.job.load import LoadedJob, load_text
from muster.job.source import Finding, JobError, Problem, parse
from muster.launch.start import data, outputs, prepare, snapshot
from muster.launch.start.environment import Context, missing_secrets
from muster.records.text.units import duration
from muster.server.core import tables
from muster.server.core.access import Caller, demand, may
from muster.server.core.accounts import projects
from muster.server.core.accounts.projects import NO_PROJECT, Project
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.pools import allowed
from muster.server.runs.pools.pool import Pool
from muster.server.runs.queue import choosing
from muster.storage.errors import InvalidRequest, StorageError
from muster.tester.errors import Denied

STORES = ("obs://", "s3://")
PRIORITIES = {False: (100, 200), True: (1, 1000)}  # of administrators: True
NO_FIELDS = ("pool", "code")  # defaults of a project that are no fields of a job
OF_CODE = ("code", "boot")  # fields whose mistakes may be that the code was not sent yet
NO_OWN = ("is not named, and you are a member of no project", "name one, or ask a manager of one to add you")
SEVERAL = "is not named, and you are a member of {} projects"
NAME_ONE = "name one: each run belongs to a project"
NOT_SENT = Finding("code", "was not sent", "send the code, or name a URL of the store")


@dataclass(frozen=True)
class Submission:
    """A job as a client sends it."""

    job: str
    sets: tuple[str, ...] = ()
    file: str = "job.yaml"
    code: str | None = None
    project: str | None = None
    pool: str | None = None
    secrets: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Checked:
    """A job that can be put into the queue."""

    job: Job
    project: Project
    pool: Pool
    account: str
    warnings: tuple[str, ...]


def check(platform: Platform, caller: Caller, given: Submission) -> Checked:
    """Checks all that can be checked before a run exists. Raises Denied, and JobError with all mistakes of the job."""
    with platform.database.read() as connection:
        project = project_of(connection, caller, given.project or _written(given, "project"))
    candidates = pools_of(platform, caller, project, given.pool or _written(given, "pool"))
    loaded, tree = _loaded(platform, caller, given, project, *candidates[0])
    if any(problem.field not in OF_CODE for problem in loaded.problems):
        loaded.checked()  # mistakes that can be seen without a pool come first
    pool, account = choosing.choose(platform, caller, project, loaded.job, candidates)
    if (pool, account) != candidates[0]:
        loaded, tree = _loaded(platform, caller, given, project, pool, account)
    return validated(platform, caller, project, pool, account, loaded, given.secrets, tree)


def _loaded(
    platform: Platform, caller: Caller, given: Submission, project: Project, pool: Pool, account: str
) -> tuple[LoadedJob, Path]:
    """Reads the job, with its code in the home of an account."""
    home = pool.home(account)
    tree = Path(home, "empty")
    if given.code is not None:
        platform.code.place(caller.principal.user_id, given.code, home)
        tree = snapshot.folder(home, given.code)
    else:
        tree.mkdir(mode=0o700, exist_ok=True)
    with _without(tree):
        return _with_defaults(given, project, tree), tree


def validated(
    platform: Platform,
    caller: Caller,
    project: Project,
    pool: Pool,
    account: str,
    loaded: LoadedJob,
    given: dict[str, str],
    tree: Path | None,
) -> Checked:
    warnings: list[str] = []
    choosing.need_known_constraints(loaded.job, pool)
    loaded = _queueable(platform, caller, loaded, pool)
    with _without(tree), platform.temporary_key(caller.principal) as access_key:
        storage = platform.environments.storage(pool, account, access_key)
        context = platform.environments.context(pool, account, storage, dict(given))
        job = _valid_job(loaded, pool, account, platform.engine(pool, account), context, warnings)
    choosing.need_possible(platform, job, pool)
    return Checked(job, project, pool, account, tuple(warnings))


def _queueable(platform: Platform, caller: Caller, loaded: LoadedJob, pool: Pool) -> LoadedJob:
    """The job with the time limit of its pool and the ids of runs that come before, or with what the queue refuses."""
    job, findings = loaded.job, []
    least, most = PRIORITIES[caller.principal.role == "administrator"]
    if job.priority is not None and not least <= job.priority <= most:
        findings.append(Finding("priority", f"is {job.priority}", f"yours are {least} to {most}"))
    longest = pool.settings.longest_grace
    if job.preemptible and job.grace > longest:
        message = f"is {duration(job.grace)}, and preemptible runs of the pool `{pool.name}` leave within {duration(longest)}"
        findings.append(Finding("grace", message, f"write at most `{duration(longest)}`, or leave `preemptible` out"))
    before: dict[str, str] = {}
    with platform.database.read() as connection:
        for name, wanted in job.after.items():
            try:
                before[rows.find(connection, caller.principal, name).id] = wanted
            except Denied as error:
                findings.append(Finding("after", f"names `{name}`: {error}", "`muster ps --server` lists your runs"))
    limit = job.time_limit or pool.settings.default_time_limit
    kind = choosing.kind_in(platform, job, pool)
    return replace(loaded, job=replace(job, after=before, time_limit=limit, device=kind)).with_findings(findings)


def _valid_job(
    loaded: LoadedJob,
    pool: Pool,
    account: str,
    engine: Engine,
    context: Context,
    warnings: list[str],
) -> Job:
    written = loaded.job
    loaded = loaded.with_findings(allowed.refused(written, pool))
    loaded.checked()  # before anything else is asked: no engine gets what is not allowed
    rights = prepare.rights_of(engine)
    loaded = replace(loaded, job=pool.with_python(pool.prepared(written, account)))
    try:
        loaded = prepare.resolve(loaded, engine, warnings.append)
        loaded = loaded.with_findings([*engine.impossible(loaded.job), *missing_secrets(loaded.job, context)])
        loaded.checked()
        job = loaded.job
        loaded = loaded.with_findings(data.missing(job, context.storage, rights))
        if job.outputs or job.log_url:
            loaded = loaded.with_findings(outputs.unwritable(job, context.storage, warnings.append, rights))
    except EngineError as error:
        raise Denied(503, f"the pool `{pool.name}` does not answer: {error}") from None
    except InvalidRequest as error:
        raise Denied(400, str(error)) from None
    except StorageError as error:
        raise Denied(503, str(error)) from None
    return loaded.checked()


def _in_store(given: Submission) -> bool:
    """True if a job that comes without code names a URL of the store for it."""
    return (_written(given, "code") or "").startswith(STORES)


def _written(given: Submission, field: str) -> str | None:
    """A text that a job or its overrides name, before the job is read with all that it needs; None where there is none."""
    fields = parse(given.job, given.file)[0].value
    written = fields.get(field, Item(None)) if isinstance(fields, dict) else Item(None)
    named = [value for name, _, value in (text.partition("=") for text in given.sets) if name.strip() == field]
    return [written.value if isinstance(written.value, str) else "", *named][-1].strip(" '\"") or None


def _with_defaults(given: Submission, project: Project, tree: Path) -> LoadedJob:
    """Reads the job, with the defaults of its project where it says nothing, and with the code in `tree`.

    No other files are looked at for it: they are the server's.
    """
    in_store = given.code is None and _in_store(given)
    own = [] if in_store else [f"code={json.dumps(str(tree))}"]
    loaded = load_text(given.job, [*given.sets, *own], tree, given.file)
    missing = {name: value for name, value in project.defaults.items() if name not in loaded.fields and name not in NO_FIELDS}
    if missing:
        extra = [f"{name}={json.dumps(value)}" for name, value in missing.items()]
        loaded = load_text(given.job, [*extra, *given.sets, *own], tree, given.file)
    return loaded if in_store or given.code is not None else loaded.with_findings([NOT_SENT])


@contextmanager
def _without(tree: Path | None) -> Iterator[None]:
    """Takes the server's path of the code out of mistakes: it means nothing to who reads them."""
    try:
        yield
    except JobError as error:
        raise JobError([_shown(problem, str(tree)) for problem in error.problems]) from None


def _shown(problem: Problem, tree: str) -> Problem:
    file = "code" if tree in problem.file else problem.file
    parts = {name: getattr(problem, name).replace(tree, "the code") for name in ("message", "hint")}
    return replace(problem, file=file, **parts)


def project_of(connection: Connection, caller: Caller, name: str | None) -> Project:
    """The project of a submission: the one that is named, or the caller's only one."""
    if name is None:
        own = list(caller.principal.projects)
        if len(own) != 1:
            raise JobError([Problem("", None, "project", *(NO_OWN if not own else (SEVERAL.format(len(own)), NAME_ONE)))])
        name = own[0]
    project = projects.find(connection, name)
    if project is None or not may(caller.principal, "projects.read", project.id):
        raise Denied(404, NO_PROJECT)
    demand(caller.principal, "runs.submit", project.id, NO_PROJECT)
    return project


def pools_of(platform: Platform, caller: Caller, project: Project, name: str | None) -> list[tuple[Pool, str]]:
    """The pools that may run a submission, with the account of its runs there: that which is named, the project's, or all."""
    serving = {pool.name: pool for pool in platform.pools.serving(project.name)}
    wanted = name or project.defaults.get("pool")
    if not serving or (wanted is not None and wanted not in serving):
        known = ", ".join(serving) or "none: ask an administrator"
        asked = f"there is no pool `{wanted}` for the project" if wanted else "there is no pool for the project"
        raise Denied(400, f"{asked} `{project.name}`; there is {known}")
    asked_for = [serving[str(wanted)]] if wanted else list(serving.values())
    found = with_account(platform, caller, project, asked_for)
    if not found:
        text = f"you have no account in the pool `{asked_for[0].name}`; ask an administrator to add you to its `accounts`"
        raise Denied(400, text)
    return found


def with_account(platform: Platform, caller: Caller, project: Project, pools: Sequence[Pool]) -> list[tuple[Pool, str]]:
    """Those of the pools in which the caller has an account for a project, with the account."""
    accounts = [(pool, pool.account_of(caller.principal.name, project.name, partial(_is_both, platform))) for pool in pools]
    return [(pool, account) for pool, account in accounts if account is not None]


def _is_both(platform: Platform, kind: str, name: str) -> bool:
    """True if the name of a user is one of a project, too, or the other way round."""
    table = tables.projects if kind == OF_USER else tables.users
    with platform.database.read() as connection:
        return connection.scalar(select(table.c.id).where(table.c.name == name)) is not None
