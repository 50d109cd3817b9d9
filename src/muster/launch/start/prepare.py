"""From a loaded job to one that can be submitted: resolve, validate, package. Each step takes data and returns data.

The cheap steps come first: code is fetched and stores are asked only for a job in which nothing wrong was found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from muster import config
from muster.dataclass import dataclass, field, replace
from muster.engines import registry
from muster.engines.base import Engine, EngineError
from muster.job import Job
from muster.job.data import local_path
from muster.job.load import LoadedJob, load
from muster.job.source import Finding, Problem
from muster.launch.start import data, interpreter, packed_agent, snapshot
from muster.launch.start.environment import Context, context, environment, missing_secrets
from muster.records.files import read_object
from muster.storage.errors import StorageError

if TYPE_CHECKING:
    from muster.launch.run import Run
    from muster.linux.accounts import Account

Say = Callable[[str], None]
"""Shows the user a warning, or what takes a while."""


@dataclass(frozen=True)
class Prepared:
    """A run that could be started: its job, code and environment. Nothing of it is written yet."""

    job: Job
    engine: Engine
    context: Context
    code: snapshot.Snapshot
    source: str  # the job file as written, for the record
    environment: dict[str, str] = field(repr=False)


def prepare(
    loaded: LoadedJob,
    home: str,
    engine: str | None = None,
    say: Say = lambda text: None,
    account: Account | None = None,
) -> Prepared:
    """Checks everything that can be checked before a run exists. Without a name the engine is that of config.toml.

    `account` is the user whose processes the ranks will be, where this process is root's. Raises JobError with all problems.
    """
    found = preview(loaded, home, engine, say, account)
    loaded = replace(loaded, problems=())  # those that it has are of no concern to this engine, as a Python is that hosts have
    loaded.with_findings(found.engine.admit(found.job, say)).checked()
    if found.job.outputs or found.job.log_url:
        from muster.launch.start import outputs

        findings = outputs.unwritable(found.job, found.context.storage, say, rights_of(found.engine))
        loaded.with_findings(findings).checked()
    return found


def rights_of(engine: Engine) -> data.Rights:
    """Files of this machine that a job names are looked at with the rights of the account that it runs as."""
    account = engine.account
    if account is None:
        return data.own_rights
    from muster.linux import accounts

    return lambda url: accounts.files_as(account) if local_path(url) else nullcontext()


def check(loaded: LoadedJob, home: str, engine: str | None = None, say: Say = lambda text: None) -> Prepared:
    """The same, and the machines on which the job would run are asked what they lack. Raises JobError."""
    found = prepare(loaded, home, engine, say)
    findings = found.engine.examine(found.job, found.code.size, say)
    replace(loaded, problems=()).with_findings(findings).checked()
    return found


def prepare_again(run: Run, set: Sequence[str] = ()) -> Prepared:
    """Prepares the recorded job of a run with its recorded code, and `name=value` overrides."""
    home, record = run.dir.home, read_object(run.dir.run)
    digest = str(record.get("code"))
    code = os.path.realpath(snapshot.folder(home, digest))
    loaded = load(replace(run.job, code=code), set, name=run.id)
    if loaded.job.code == code and not snapshot.intact(home, digest):
        message = f"names {code}, whose files are not the recorded ones any more"
        hint = "start the job from its own code with `muster run`, or add `--set code=DIR`"
        loaded = loaded.with_findings([("code", message, hint)])
    prepared = prepare(loaded, home, record.get("engine", "local"), account=registry.account_of(run.dir))
    if prepared.job.code != code:  # an override names other code
        return prepared
    return replace(prepared, job=replace(prepared.job, code=run.job.code))  # the record names where the code came from


def preview(
    loaded: LoadedJob,
    home: str,
    engine: str | None = None,
    say: Say = lambda text: None,
    account: Account | None = None,
) -> Prepared:
    """The same for what is only shown: nothing is written to see whether the outputs can be."""
    try:
        settings = config.load(home)
        chosen = registry.get(engine or settings.engine, home, settings, partial(packed_agent.content, home), account)
        found = context(home, settings)
        loaded = validate(resolve(loaded, chosen, say), chosen, found)
    except (config.ConfigError, EngineError, StorageError) as error:
        if loaded.problems:  # all are reported together
            replace(loaded, problems=(*loaded.problems, Problem("", None, "", str(error)))).checked()
        raise
    loaded.checked()
    return package(loaded, chosen, found, say)


def resolve(loaded: LoadedJob, engine: Engine, say: Say) -> LoadedJob:
    """The job with what its file leaves open: devices by the engine, the Python by the PATH."""
    job = engine.resolve(loaded.job, say)
    if job.hosts and engine.name != "ssh":
        say(f"`hosts` is for the engine ssh, and this run is on {engine.name}; add `--engine ssh` to run it there")
    if not engine.shares_files:
        return _with_python_elsewhere(loaded, job)
    if job.boot and not job.python:
        job = replace(job, python=interpreter.default() or "")
    return replace(loaded, job=job)


def _with_python_elsewhere(loaded: LoadedJob, job: Job) -> LoadedJob:
    """The job with its Python as it is written, for machines on which alone it can be found."""
    written = loaded.fields.get("python")
    problems = tuple(problem for problem in loaded.problems if problem.field != "python")
    return replace(loaded, job=replace(job, python=str(written.value) if written else "python3"), problems=problems)


def validate(loaded: LoadedJob, engine: Engine, context: Context) -> LoadedJob:
    """The job with the problems that the engine and the settings find."""
    job = loaded.job
    unseen = [] if engine.shares_files or engine.moves_data else data.unseen(job)
    findings = [*engine.impossible(job), *missing_secrets(job, context), *unseen]
    if job.boot and not job.python:
        findings.append(Finding("python", "has no default: there is no `python` on your PATH", "set it to a path"))
    if job.after:
        message = "names runs that this one follows, and only a server has a queue in which it can wait for them"
        findings.append(Finding("after", message, "add `--server`, or leave it out and wait with `muster wait`"))
    return loaded.with_findings(findings)


def package(loaded: LoadedJob, engine: Engine, context: Context, say: Say) -> Prepared:
    """Checks the inputs, fetches the code and takes a snapshot of it. Raises JobError."""
    job = loaded.job
    missing = data.missing(job, context.storage, rights_of(engine))
    code, wrong = _code(job, context, say)
    refused = engine.refused_code(code.size, len(code.entries)) if code is not None else []
    loaded.with_findings([*missing, *wrong, *refused]).checked()
    assert code is not None  # without it something is wrong
    return Prepared(job, engine, context, code, loaded.text, environment(job, context))


def _code(job: Job, context: Context, say: Say) -> tuple[snapshot.Snapshot | None, list[Finding]]:
    """The snapshot of a job's code, or why there is none."""
    try:
        folder = data.code(job, context.storage, say)
    except data.NoCode as error:
        return None, [Finding("code", str(error), "`muster ls` shows what is there")]
    except OSError as error:
        return None, [_untaken(error)]
    return taken(job, folder, context.home, say)


def taken(job: Job, folder: str, home: str, say: Say) -> tuple[snapshot.Snapshot | None, list[Finding]]:
    """The snapshot of a directory with the code of a job, or why there is none."""
    try:
        code = snapshot.take(folder, home, say)
    except (snapshot.SnapshotError, OSError) as error:
        return None, [_untaken(error)]
    boot = os.path.relpath(os.path.realpath(os.path.join(folder, job.boot)), folder)
    if not job.boot or any(entry.name == boot for entry in code.entries):
        return code, []
    if folder != job.code:
        shows = f"`muster ls {job.code}` shows what is there"
        return None, [Finding("boot", f"names `{job.boot}`, which is not in {job.code}", shows)]
    hint = f"see {snapshot.IGNORE_FILE}, and the names that are always left out, such as `.venv`"
    return None, [Finding("boot", f"names `{job.boot}`, which is left out of the code that a run keeps", hint)]


def _untaken(error: Exception) -> Finding:
    hint = f"name the program's own directory, or list data in {snapshot.IGNORE_FILE}"
    return Finding("code", f"cannot be taken: {error}", hint)
