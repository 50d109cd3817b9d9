"""Creating a run: everything is checked first, then its directory is made and the engine is asked to start it."""

from __future__ import annotations

import fcntl
import getpass
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from muster import __version__, config
from muster.config import power
from muster.engines import registry
from muster.engines.base import Engine, Order, Request
from muster.job import Job
from muster.job.load import Check
from muster.launch import data, interpreter, outputs, snapshot, zipapp
from muster.records import keys, submissions
from muster.records.files import locked, write_json, write_text
from muster.records.layout import RunDir, home, make_home, run_dir
from muster.storage.settings import Settings

Load = Callable[[Check], Job]
"""Loads a job with a check of ours among its own, so that all problems are told at once, with their lines."""

CheckOutputs = Callable[[Job, Settings, Callable[[str], None]], list[tuple[str, str, str]]]
"""Says what keeps the outputs of a job from being written."""


@dataclass(frozen=True)
class Prepared:
    """A run that could be started: checked, but nothing is written yet."""

    job: Job
    engine: Engine
    settings: config.Config
    code: snapshot.Snapshot
    source: str  # the job file as written, for the record
    environment: dict[str, str]
    storage: Settings


def prepare(
    load: Load,
    engine: str | None = None,
    file: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Prepared:
    """Checks everything that can be checked before a run exists; `say` hears of what takes a while.

    Without a name the engine is the one of config.toml.
    """
    return _prepared(load, engine, file, say, outputs.unwritable)


def preview(load: Load, engine: str | None, file: str | os.PathLike[str] | None, say: Callable[[str], None]) -> Prepared:
    """The same for what is only to be shown: nothing is written to see whether the outputs can be."""
    return _prepared(load, engine, file, say, lambda job, settings, say: [])


def _prepared(
    load: Load,
    engine: str | None,
    file: str | os.PathLike[str] | None,
    say: Callable[[str], None],
    unwritable: CheckOutputs,
) -> Prepared:
    settings = config.load(home())
    found = _Preparation(registry.get(engine or settings.engine, home(), settings), settings, say, unwritable)
    load(found.check)
    assert found.job and found.code  # a check without problems leaves both
    source = Path(file).read_text(encoding="utf-8", errors="replace") if file and os.path.isfile(file) else ""
    return Prepared(found.job, found.engine, found.settings, found.code, source, found.environment, found.storage)


class _Preparation:
    """What the engine, the settings and this machine say about a job, and what they add to it."""

    def __init__(
        self,
        engine: Engine,
        settings: config.Config,
        say: Callable[[str], None],
        unwritable: CheckOutputs = outputs.unwritable,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.say = say
        self._unwritable = unwritable
        self.environment = _environment()
        self.storage = data.settings(settings, self.environment)
        self.environment[keys.STORAGE] = self.storage.to_json()  # for the agents' helpers, and no other process
        told = self._power()
        self.environment["MUSTER_POWER"] = power.without_passwords(told)
        if told != self.environment["MUSTER_POWER"]:
            self.environment[keys.POWER] = told
        self.job: Job | None = None
        self.code: snapshot.Snapshot | None = None

    def check(self, job: Job) -> Iterator[list[tuple[str, str, str]]]:
        self.job = job = self.engine.resolve(job, self.say)
        found = [*self.engine.impossible(job), *self._secrets(job)]
        if job.boot and not job.python:
            self.job = job = replace(job, python=interpreter.default() or "")
            if not job.python:
                found.append(("python", "has no default: there is no `python` on your PATH", "set it to a path"))
        yield found
        yield [*data.missing(job, self.storage), *self._code(job)]
        yield self._unwritable(job, self.storage, self.say)

    def _power(self) -> str:
        secrets = {**self.settings.secrets, **self.environment}
        return power.travelling(self.settings.power, Path(home()), secrets, os.uname().nodename)

    def _secrets(self, job: Job) -> list[tuple[str, str, str]]:
        kept = {name: value for name, value in self.settings.secrets.items() if name in job.secrets}
        self.environment = {**kept, **self._without_keys(job)}
        place = f"{home()}/config.toml"
        return [
            ("secrets", f"names `{name}`, which is not set", f"export {name}, or put it into a profile of {place}")
            for name in job.secrets
            if name not in self.environment
        ]

    def _without_keys(self, job: Job) -> dict[str, str]:
        """The environment without keys that were only for this command: what is not sent cannot be found."""
        wanted, named = {*job.secrets, keys.STORAGE, keys.POWER}, power.secrets(self.settings.power)
        unwanted = {name for name in self.environment if name in named or keys.is_key(name)} - wanted
        return {name: value for name, value in self.environment.items() if name not in unwanted}

    def _code(self, job: Job) -> list[tuple[str, str, str]]:
        if not job.code:  # it could not be read, and that has been said
            return []
        try:
            folder = data.code(job, self.storage, self.say)
            self.code = snapshot.take(folder, home(), self.say)
        except data.NoCode as error:
            return [("code", str(error), "`muster ls` shows what is there")]
        except (snapshot.SnapshotError, OSError) as error:
            hint = f"name the program's own directory, or list data in {snapshot.IGNORE_FILE}"
            return [("code", f"cannot be taken: {error}", hint)]
        boot = os.path.relpath(os.path.realpath(os.path.join(folder, job.boot)), folder)
        if job.boot and all(entry.name != boot for entry in self.code.entries):
            if folder != job.code:
                shows = f"`muster ls {job.code}` shows what is there"
                return [("boot", f"names `{job.boot}`, which is not in {job.code}", shows)]
            hint = f"see {snapshot.IGNORE_FILE}, and the names that are always left out, such as `.venv`"
            return [("boot", f"names `{job.boot}`, which is left out of the code that a run keeps", hint)]
        return []


def environment(job: Job, engine: Engine) -> dict[str, str]:
    """What a run of a job has to travel with, as this command's environment and settings say it now. Raises MissingSecrets."""
    found = _Preparation(engine, config.load(home()), lambda text: None)
    if missing := found._secrets(job):
        raise MissingSecrets("; ".join(f"its `{field}` {message}; {hint}" for field, message, hint in missing))
    return found.environment


class MissingSecrets(Exception):
    """Why this command cannot start a job that was recorded; the text says what to do."""


def _environment() -> dict[str, str]:
    """The submitter's environment. Where it names no locale, Python has put an LC_CTYPE into its own."""
    environment = dict(os.environ)
    environment.pop(submissions.VARIABLE, None)  # the run's own, which a later submission is told: no word of a user
    if "MUSTER_HOME" in environment:
        environment["MUSTER_HOME"] = home()  # ranks start elsewhere: a relative one would mean another place to them
    if sys.flags.utf8_mode and b"\0LC_CTYPE=" not in b"\0" + Path("/proc/self/environ").read_bytes():
        environment.pop("LC_CTYPE", None)
    return environment


def order(prepared: Prepared, run_id: str) -> Order:
    """The order that the engine gets, with the paths that will be."""
    place = home()
    code = str(snapshot.folder(place, prepared.code.digest))
    return Order(run_dir(place, run_id).path, code, zipapp.path(place))


def render(prepared: Prepared) -> Request:
    """What would be submitted; nothing is created."""
    return prepared.engine.render(prepared.job, order(prepared, new_id(prepared.job.name)), prepared.environment)


def start(prepared: Prepared, follower: int | None = None) -> RunDir:
    """Makes the run directory and submits. `follower` is a descriptor whose end stops the run."""
    try:
        place = make_home()
    except OSError as error:
        reason = str(error.strerror).lower()
        raise config.ConfigError(f"{home()} cannot be made: {reason}; set MUSTER_HOME to a directory of yours") from None
    os.makedirs(f"{place}/store", 0o700, exist_ok=True)  # nodes are shown what is there when they start
    agent = zipapp.build(place)
    prepared = replace(prepared, code=snapshot.keep(prepared.code, place))
    job = prepared.job
    if job.boot:
        job = replace(job, python=interpreter.resolve(job.python, place))
    data.make_outputs(job, prepared.storage)
    run = _make(place, job.name)
    with locked(run.path):
        record = {
            "run": run.id,
            "engine": prepared.engine.name,
            "handle": None,
            "user": user(),
            "host": os.uname().nodename,
            "created": time.time(),
            "utc_offset": time.localtime().tm_gmtoff,
            "code": prepared.code.digest,
            "muster": __version__,
        }
        try:
            write_json(run.job, job.to_json())
            if prepared.source:
                write_text(run.job_file, prepared.source)
            write_json(run.run, record)
            os.mkdir(run.shared, 0o700)
            request = prepared.engine.render(job, replace(order(prepared, run.id), agent=agent), prepared.environment)
            if request.script:
                write_text(run.script, request.script)
            record["handle"] = prepared.engine.submit(request, follower)
        except BaseException:
            shutil.rmtree(run.path, ignore_errors=True)
            raise
        write_json(run.run, record)
    return run


def under_way(run: RunDir) -> bool:
    """Whether a run is just being created: who creates it locks its directory, and the system unlocks it for the dead."""
    try:
        folder = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(folder)


def user() -> str:
    """Who starts runs here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run with a user id that has no name
        return str(os.getuid())


def new_id(name: str) -> str:
    letters = "".join(random.choices("abcdefghijkmnpqrstuvwxyz", k=4))
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{letters}"


def _make(place: str, name: str) -> RunDir:
    Path(place, "runs").mkdir(mode=0o700, exist_ok=True)
    while True:
        run = run_dir(place, new_id(name))
        try:
            os.mkdir(run.path, 0o700)
            return run
        except FileExistsError:
            continue
